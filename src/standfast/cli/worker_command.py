"""The `worker` command: a worker in its own process, or several processes under a supervisor."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from standfast import settings
from standfast.cli import logs
from standfast.cli.applications import application
from standfast.cli.group import DONE, FAILED, MOVED, shared
from standfast.cli.parameters import duration, memory, names, number_of_processes
from standfast.portable import CAN_RUN_CHILDREN
from standfast.worker.changed_files import ChangedFiles
from standfast.worker.recycling import Recycling
from standfast.worker.service import ProcessOptions
from standfast.worker.supervisor import Plan, Supervisor, alive_file_of
from standfast.worker.worker import GRACE, SLOTS

CODE_OF = {"deaths": FAILED, "moved": MOVED}
"""The exit code for each ending that is not as it should be."""
AT_LEAST_1 = click.IntRange(min=1)


@click.command()
@click.argument("app", metavar="[APP:SF]", required=False)
@click.option("--queues", type=names, help="Only these queues; else every one that has a handler here.")
@click.option("--concurrency", type=AT_LEAST_1, default=SLOTS, show_default=True, help="Slots per queue.")
@click.option("--total", type=AT_LEAST_1, help="Slots over all queues of a process; else only --concurrency limits.")
@click.option("--grace", type=duration, default=GRACE, show_default=True, help="How long a drain lets attempts finish.")
@click.option("--processes", type=number_of_processes, default=1, help="Worker processes; 'auto' is one for each core.")
@click.option("--recycle-after", type=AT_LEAST_1, metavar="JOBS", help="Restart a process after this many jobs.")
@click.option("--recycle-above", type=memory, metavar="SIZE", help="Restart it above this much memory, such as 512M.")
@click.option("--once", is_flag=True, help="Run what is due, then exit: 0, or 1 if a job ended dead or held.")
@click.option("--reload", is_flag=True, help="Restart when a source file here changes; for development.")
@click.option("--alive", type=click.Path(dir_okay=False), metavar="FILE", help="Touch FILE while it is alive.")
@click.option("--suspects-of", type=int, hidden=True)
@click.option("--tell", type=int, hidden=True)
@click.option("--supervised", type=int, hidden=True)
@shared
def worker(*, app: str | None, url: str | None, as_json: bool, suspects_of: int | None, **given: Any) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C drains: what runs is finished or given back, and the exit code is 0. A second one exits at once.

    A job whose worker died while it ran is run alone, in a separate process. If it kills that too, it ends dead as
    worker_lost.

    With --processes, a process that dies is restarted. With --recycle-after or --recycle-above, a process claims no
    more jobs, finishes those it runs, and restarts: no job is interrupted. `standfast alive FILE` checks the file of
    --alive.

    APP:SF names the application: a module in the current directory, and the Standfast object in it. Without one, only
    HTTP jobs are run; lost jobs are still recovered, late ones expire, and finished ones are pruned.
    """
    _keep_to_this_process(given["tell"], given["supervised"])
    _check_portable(given)
    if given["supervised"] is None and suspects_of is None and (given["processes"] > 1 or given["reload"]):
        _supervise(given, as_json=as_json)
    with logs.kept_while_importing(settings.load(None, os.environ).log_level.value) as early:
        sf = application(app, url)
    logs.start(sf.settings.log.value, as_json=as_json, level=sf.settings.log_level.value)
    early.write()
    queues, grace = given["queues"], given["grace"]
    if suspects_of is not None:
        sf.run_suspects(queues, parent=suspects_of, grace=grace, tell=given["tell"])
        return
    options = [*(["--json"] if as_json else []), *(["--queues", ",".join(queues)] if queues else [])]
    command = for_suspects(app, url, "--grace", str(grace), *options)
    process = _process_options(given)
    slots = {"concurrency": given["concurrency"], "total": given["total"]}
    ending = sf.run_worker(queues, **slots, grace=grace, suspects=command, process=process)
    if ending == "recycle":
        _start_anew(given["supervised"])
    sys.exit(CODE_OF.get(ending, DONE))


def _keep_to_this_process(*descriptors: int | None) -> None:
    """Keep the application's child processes from inheriting the pipes to the process that started this one."""
    for each in descriptors:
        if each is not None:
            os.set_inheritable(each, False)  # noqa: FBT003 - it takes no keyword


def _check_portable(given: dict[str, Any]) -> None:
    """Refuse options that the operating system cannot support."""
    wanted = given["processes"] > 1 or given["reload"] or given["recycle_after"] or given["recycle_above"]
    if wanted and not CAN_RUN_CHILDREN:
        raise click.UsageError(
            "--processes, --reload and --recycle-… need a system with process groups, which this one does not have; "
            "start several workers instead"
        )


def _process_options(given: dict[str, Any]) -> ProcessOptions:
    recycling = Recycling(after=given["recycle_after"], above=given["recycle_above"])
    if given["once"] and (recycling or given["supervised"] is not None):
        raise click.UsageError("--once ends when nothing is due; leave out --recycle-after, --recycle-above or --once")
    return ProcessOptions(once=given["once"], recycling=recycling, alive=given["alive"], supervisor=given["supervised"])


def _supervise(given: dict[str, Any], *, as_json: bool) -> NoReturn:
    """Start the worker processes, each with this same command line, and exit when all of them have ended."""
    if given["once"]:
        raise click.UsageError("--once is for one process; leave out --processes and --reload")
    logs.start(settings.load(None, os.environ).log.value, as_json=as_json)
    processes, after, alive = given["processes"], given["recycle_after"], given["alive"]

    def command(place: int) -> list[str]:
        own = [] if alive is None else ["--alive", str(alive_file_of(alive, place))]
        if after is not None:  # so that they do not all restart at once
            own += ["--recycle-after", str(after + after * (place - 1) // (5 * processes))]
        return [*this_command(), *own]

    plan = Plan(
        command=command, processes=processes, changed=ChangedFiles(Path.cwd()) if given["reload"] else None, alive=alive
    )
    sys.exit(asyncio.run(_supervised(plan)))


async def _supervised(plan: Plan) -> int:
    return await Supervisor(plan).run()


def this_command() -> list[str]:
    """Return the command line of this process, to start another one like it."""
    return [sys.executable, "-m", "standfast", *sys.argv[1:]]


def _start_anew(supervised: int | None) -> NoReturn:
    """Replace this process by a new one with the same process id, so that its supervisor notices nothing."""
    if supervised is not None:
        os.set_inheritable(supervised, True)  # noqa: FBT003 - it takes no keyword
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, this_command())  # noqa: S606 - the command line that started this process


def for_suspects(app: str | None, url: str | None, *options: str) -> list[str]:
    """Return the command that runs suspects alone (jobs whose worker died): this command, in its own process.

    The store's address is passed in the environment: it may hold a password, and anybody can read a command line.
    """
    if url is not None:
        os.environ["STANDFAST_URL"] = url
    named = [app] if app is not None else []
    return [sys.executable, "-m", "standfast", "worker", *named, "--suspects-of", str(os.getpid()), *options]
