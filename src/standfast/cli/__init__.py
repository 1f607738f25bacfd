"""The command line: every command is a thin door over the application object."""

from standfast.cli import disposal_commands
from standfast.cli.approval_commands import approvals
from standfast.cli.audit_commands import audit
from standfast.cli.backup_commands import backup, restore
from standfast.cli.call_commands import run, submit
from standfast.cli.consent_commands import consent
from standfast.cli.dead_commands import dead
from standfast.cli.demo_command import demo
from standfast.cli.door import Door
from standfast.cli.enqueue_commands import enqueue, http
from standfast.cli.inbox_command import inbox
from standfast.cli.ingest_command import ingest
from standfast.cli.job_commands import cancel, explain, jobs, retry, status, wait
from standfast.cli.mcp_command import mcp
from standfast.cli.policy_commands import policy
from standfast.cli.promote_command import promote
from standfast.cli.queue_commands import queue, stats
from standfast.cli.redrive_commands import plan, redrive
from standfast.cli.schedule_commands import schedule
from standfast.cli.serve_command import serve
from standfast.cli.store_commands import bench, config, doctor, health, migrate
from standfast.cli.tail_command import tail
from standfast.cli.token_commands import token
from standfast.cli.version import with_version
from standfast.cli.worker_command import worker
from standfast.cli.workflow_commands import workflow

for command in (plan, redrive, *disposal_commands.COMMANDS):
    dead.add_command(command)

_doors = Door(
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
