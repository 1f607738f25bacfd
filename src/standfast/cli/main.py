"""The command line: every command is a thin door over the application object."""

from standfast.cli.demo_command import demo
from standfast.cli.group import CommandGroup
from standfast.cli.mcp_command import mcp
from standfast.cli.serve_command import serve
from standfast.cli.store_commands import bench, config, migrate
from standfast.cli.version import with_version
from standfast.cli.worker_command import worker
from standfast.wings.approvals.commands import approvals
from standfast.wings.audit.commands import audit
from standfast.wings.backup.commands import backup, restore
from standfast.wings.calls.commands import run, submit
from standfast.wings.consent.commands import consent
from standfast.wings.health.commands import doctor, health, stats
from standfast.wings.ingest.commands import ingest
from standfast.wings.jobs.commands import cancel, explain, jobs, retry, status, wait
from standfast.wings.jobs.enqueue_commands import enqueue, http
from standfast.wings.letters import disposal_commands
from standfast.wings.letters.commands import dead
from standfast.wings.notices.commands import tail
from standfast.wings.policy.commands import policy
from standfast.wings.promote.commands import promote
from standfast.wings.queues.commands import queue
from standfast.wings.redrives.commands import plan, redrive
from standfast.wings.schedules.commands import schedule
from standfast.wings.sessions.commands import inbox
from standfast.wings.tokens.commands import token
from standfast.wings.workflows.commands import workflow

for command in (plan, redrive, *disposal_commands.COMMANDS):
    dead.add_command(command)

_doors = CommandGroup(
    "standfast",
    commands=[
        *(serve, worker, enqueue, http, ingest, run, submit, status, wait, retry, cancel, explain, jobs, tail),
        *(
            queue,
            dead,
            approvals,
            inbox,
            consent,
            schedule,
            workflow,
            policy,
            audit,
            stats,
            health,
            doctor,
            migrate,
            backup,
            restore,
            promote,
            config,
            bench,
            demo,
            mcp,
            token,
        ),
    ],
    help="A durable queue that knows about side effects.",
)
main = with_version(_doors)
