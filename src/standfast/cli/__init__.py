"""The command line: every command is a thin door over the application object."""

import click

from standfast.cli.door import Door
from standfast.cli.job_commands import enqueue, jobs, status, wait
from standfast.cli.store_commands import bench, config, doctor, health, migrate
from standfast.cli.worker_command import worker

_doors = Door(
    "standfast",
    commands=[worker, enqueue, status, wait, jobs, health, doctor, migrate, config, bench],
    help="A durable queue that knows about side effects.",
)
main = click.version_option(package_name="standfast")(_doors)
