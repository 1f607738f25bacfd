"""What can be said about a job is offered at every door, and is kept wherever the job goes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from standfast import Permanent
from standfast.cli.main import main
from standfast.job import Details
from standfast.spine import accept
from standfast.testing import drain, memory
from standfast.views import JobView
from standfast.wings.jobs.bodies import NewJob
from standfast.wings.letters.letter_export import line
from standfast.wings.letters.letter_import import Line, _details
from standfast.wings.records import reads
from standfast.wings.schedules.ticking import Spec, options_of
from tests.waiting import job_of
from tests.worker.inside import store_of

NOT_OVER_HTTP = {"idempotency_key", "requester", "attempts", "lease", "first_seen_at"}
"""The key is a header, the requester is who has the token, and the others are for programs."""
NOT_IN_A_SHELL = {"requester", "lease", "first_seen_at"}
NOT_SHOWN = {"collected", "amended", "amenders", "also_requested_by", "trace", "coalesce", "newest_counts"}
"""Details that people see in another form, or not at all."""
EXAMPLES: dict[str, Any] = {
    "session": "s",
    "requester": "r",
    "risk": "high",
    "labels": {"a": "b"},
    "coalesce": "latest",
}
"""One value for each detail that a caller gives. A new detail needs one here."""


def test_every_option_is_a_field_of_the_routes_body():
    assert set(accept.OPTIONS) - NOT_OVER_HTTP == set(NewJob.__struct_fields__) - {
        "queue",
        "handler",
        "payload",
        "http",
    }


@pytest.mark.parametrize("command", ["enqueue", "http"])
def test_every_option_is_one_of_the_command(command):
    assert set(accept.OPTIONS) - NOT_IN_A_SHELL <= {each.name for each in main.commands[command].params}


def test_every_detail_is_shown():
    assert set(Details.__struct_fields__) - NOT_SHOWN <= set(JobView.__struct_fields__)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in NOT_SHOWN])
async def test_a_detail_that_is_given_alone_is_kept(name):
    async with memory() as sf:
        job_id = str((await sf.enqueue("mail", 1, **{name: EXAMPLES[name]})).id)
        assert getattr(await job_of(sf, job_id), name) == EXAMPLES[name]


async def test_every_detail_that_a_caller_gives_is_kept_with_the_job_its_file_and_its_schedule():
    assert set(accept.DETAILS) == set(EXAMPLES)
    async with memory() as sf:

        @sf.handler("mail")
        async def mail(_job):
            raise Permanent("never")

        job_id = str((await sf.enqueue("mail", 1, thread_key="t", **EXAMPLES)).id)
        await drain(sf)
        view = await job_of(sf, job_id)
        shown = {name: value for name, value in EXAMPLES.items() if name not in NOT_SHOWN}
        assert {name: getattr(view, name) for name in shown} == shown
        record = await store_of(sf).read(reads.job(job_id))
        assert record is not None
        written = msgspec.json.decode(line(record, now=0.0, skew=0.0), type=Line)
        assert msgspec.json.decode(_details(written), type=Details) == msgspec.json.decode(
            record.row.details, type=Details
        )
        spec = Spec(queue="mail", handler="mail", payload="1", details=record.row.details, every=60.0)
        assert options_of(spec).items() >= EXAMPLES.items()
