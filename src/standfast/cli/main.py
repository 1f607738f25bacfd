"""The command line: every command is a thin door over the application object, and is imported on first use."""

from standfast.cli.group import with_url
from standfast.cli.lazy_group import LazyGroup, Place
from standfast.cli.version import with_version

_doors = LazyGroup(
    "standfast",
    [
        Place("serve", "cli.serve_command:serve", "Serve REST and the dashboard, and run jobs."),
        Place("worker", "cli.worker_command:worker", "Run jobs until told to stop."),
        Place(
            "alive",
            "cli.alive_command:alive",
            "Tell whether a worker is alive by the FILE of its --alive: exit code 0 if it is, 1 if not.",
        ),
        Place(
            "enqueue", "wings.jobs.enqueue_commands:enqueue", "Store a job; it is on disk when its receipt is printed."
        ),
        Place(
            "http",
            "wings.jobs.enqueue_commands:http",
            "Store an HTTP request for a worker to send; it is on disk when its receipt is printed.",
        ),
        Place(
            "ingest",
            "wings.ingest.commands:ingest",
            "Accept a webhook's body from FILE or standard input, as the server would, and store its job.",
        ),
        Place(
            "run",
            "wings.calls.commands:run",
            "Call a handler now, recorded before the call, and show the result.",
        ),
        Place("submit", "wings.calls.commands:submit", "Let a worker call a handler once, and print the job's id."),
        Place("status", "wings.jobs.commands:status", "Show one job."),
        Place("wait", "wings.jobs.commands:wait", "Wait until a job is settled, and show it."),
        Place(
            "retry",
            "wings.jobs.commands:retry",
            "Run a job again as soon as possible: a waiting job now, a letter by replay.",
        ),
        Place("cancel", "wings.jobs.commands:cancel", "Cancel a job."),
        Place("explain", "wings.jobs.commands:explain", "Explain why a job is where it is, and what to do next."),
        Place("jobs", "wings.jobs.commands:jobs", "List jobs, newest first."),
        Place(
            "tail", "wings.notices.commands:tail", "Follow what happens to jobs, from every process, until interrupted."
        ),
        Place("queue", "wings.queues.commands:queue", "List, pause and resume queues, and try what they depend on."),
        Place(
            "dead",
            "cli.dead_group:dead",
            "List dead letters, the jobs that stopped and need a person, and put them back to work.",
        ),
        Place("approvals", "wings.approvals.commands:approvals", "List approvals, and answer them."),
        Place("inbox", "wings.sessions.commands:inbox", "List the messages of a session about its jobs, newest first."),
        Place(
            "consent",
            "wings.consent.commands:consent",
            "Show which handlers sessions allow and which jobs wait for consent; grant, deny, revoke.",
        ),
        Place("schedule", "wings.schedules.commands:schedule", "Enqueue jobs on a schedule."),
        Place("workflow", "wings.workflows.commands:workflow", "Show and cancel workflows."),
        Place(
            "policy",
            "wings.policy.commands:policy",
            "Show the policy for dead letters, and try another one before it takes effect.",
        ),
        Place(
            "audit", "wings.audit.commands:audit", "List audited decisions, and verify that the record is unchanged."
        ),
        Place("stats", "wings.health.commands:stats", "Show counts: what the store has now, and what happened so far."),
        Place(
            "health",
            "wings.health.commands:health",
            "List what is wrong: stuck queues, missing workers, low disk space.",
        ),
        Place("workers", "wings.health.commands:workers", "List live workers and what they run."),
        Place("alerts", "wings.alerts.commands:alerts", "List open alerts."),
        Place("doctor", "wings.health.commands:doctor", "Check the store, in use or not, by reading all of it once."),
        Place("migrate", "cli.store_commands:migrate", "Migrate the store's schema to this version."),
        Place(
            "backup",
            "wings.backup.commands:backup",
            "Copy the store to a new file while work continues, and verify the copy.",
        ),
        Place(
            "restore",
            "wings.backup.commands:restore",
            "Restore a backup to a new store; an existing one is never overwritten.",
        ),
        Place(
            "promote", "wings.promote.commands:promote", "Move a store from a file to PostgreSQL while it is in use."
        ),
        Place(
            "import",
            "wings.imports.commands:imports",
            "Bring in the records of another queue, each once, with their age, attempts, history and reasons.",
        ),
        Place("import-jsonl", "wings.imports.commands:alias", "Bring in a FILE of JSON lines, as `import jsonl` does."),
        Place(
            "config",
            "cli.store_commands:config",
            "Show every setting of this directory and where it comes from; secrets are hidden.",
        ),
        Place(
            "bench",
            "cli.store_commands:bench",
            "Measure standfast and raw SQLite on this machine, or standfast and other queues on a PostgreSQL server.",
        ),
        Place("scan", "cli.scan_command:scan", "Find work that can be lost: unreferenced tasks, hidden errors."),
        Place(
            "demo", "cli.demo_command:demo", "Kill a worker in the middle of its work, and show that nothing is lost."
        ),
        Place("mcp", "cli.mcp_command:mcp", "Serve agents over MCP, on standard input and output."),
        Place("token", "wings.tokens.commands:token", "Create and revoke tokens for the server."),
    ],
    help="A durable queue that knows about side effects.",
)
main = with_version(with_url(_doors))
