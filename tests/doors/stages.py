"""What the commands find: jobs that wait, and letters of several kinds."""

import asyncio
import json

from standfast import Permanent, Standfast, Transient, Uncertain
from standfast.testing import drain

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u2066\x9b31m\x7f\r"


def refuse(_job):
    raise Permanent(f"no {HOSTILE}")


def outage(_job):
    raise Transient("gone", reason_code="dependency_unavailable")


def unsure(_job):
    raise Uncertain("who knows", reason_code="unknown_commit_state")


def work(*, consent=False, **handlers):
    """Run what is due with these handlers, by queue."""

    async def run() -> None:
        async with Standfast() as sf:
            for queue, function in handlers.items():
                sf.queue(queue, attempts=1)
                sf.handler(queue, consent=consent)(function)
            await drain(sf)

    asyncio.run(run())


def job_of(cli, *arguments):
    """Enqueue; give the job's id."""
    return json.loads(cli("enqueue", *arguments, "--json").stdout)["id"]


def told(cli, *arguments):
    """Run a command; give its exit code and what it wrote as JSON."""
    done = cli(*arguments, "--json")
    return done.exit_code, json.loads(done.stdout)
