"""Letters in a Redis list, read over the real protocol."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as library

from standfast import ConfigurationError
from standfast.testing import memory
from standfast.wings.imports import known_shapes, redis_reader
from standfast.wings.imports.redis_reader import ListChanged, dump, redis
from standfast.wings.imports.words import Report, Source
from tests.worker.redis_server import filled, has_real_redis, real_redis, small_redis


def letter(number: int) -> str:
    """Give a letter as a scheduler writes it."""
    return json.dumps(
        {
            "job_id": f"job_{number}",
            "topic": "tool.github.pr.create",
            "status": "FAILED",
            "reason_code": "max_scheduling_retries",
            "reason": "max scheduling retries exceeded (attempts=50)",
            "attempts": 50,
            "idempotency_key": f"run:{number}",
            "request": {"n": number},
            "replay_status": "pending_review",
        }
    )


@pytest.fixture(params=["small", *(["real"] if has_real_redis() else [])])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give a Redis; where a redis-server is installed, that one too."""
    with (real_redis if request.param == "real" else small_redis)(tmp_path) as address:
        yield address


async def brought(source: Source) -> list[Report]:
    """Import twice into a new store; see that the letters are whole."""
    async with memory() as sf:
        reports = [await sf.imports.bring_in(source, known_shapes.LETTERS, by="ann") for _ in range(2)]
        for job in await sf.dead_letters.list(limit=500):
            assert (job.queue, job.attempts, job.idempotency_key) == (
                "tool.github.pr.create",
                50,
                f"run:{job.payload['n']}",
            )
            assert job.failure is not None
            assert job.failure.reason_code == "max_attempts"
    return reports


async def test_a_list_of_letters_is_read_whole_and_twice_brings_nothing_twice(server, monkeypatch):
    monkeypatch.setattr(redis_reader, "SLICE", 7)
    filled(server, {"letters": [letter(n) for n in range(20)] + ["{broken"]})
    first, second = await brought(redis(server, "letters"))
    assert dict(first.outcomes) == {"dead": 20, "rejected": 1}
    assert (first.first_rejected[0].name, first.rejects_file) == ("element 21", "letters.rejects.jsonl")
    assert dict(second.outcomes) == {"known": 20, "rejected": 1}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the files of rejects out of the repository."""
    monkeypatch.chdir(tmp_path)


async def test_an_index_leads_to_the_keys_of_its_letters(server):
    filled(server, {"dlq:index": ["job_1", "job_2"]}, {"dlq:entry:job_1": letter(1)})
    first, _ = await brought(redis(server))
    assert dict(first.outcomes) == {"dead": 1, "rejected": 1}
    assert "no key dlq:entry:job_2 is there" in first.first_rejected[0].why


async def test_a_list_that_changes_while_it_is_read_is_noticed(server, monkeypatch):
    """Its places have moved, so the rest would be read wrongly."""
    monkeypatch.setattr(redis_reader, "SLICE", 2)
    filled(server, {"letters": [letter(n) for n in range(6)]})
    reading = redis(server, "letters").read()
    assert [next(reading).number for _ in range(2)] == [1, 2]
    filled(server, {"letters": [letter(9)]})
    with pytest.raises(ListChanged, match="from 6 to 7 elements"):
        next(reading)


def test_what_is_no_list_and_a_server_that_is_away_are_said_in_one_line(server):
    filled(server, {}, {"text": "x"})
    with pytest.raises(ConfigurationError, match="is a string, not a list"):
        next(redis(server, "text").read())
    with pytest.raises(ConfigurationError, match="there is no key 'nothing'"):
        next(redis(server, "nothing").read())
    away = redis("redis://:secret@127.0.0.1:1/0", "letters")
    assert away.count() is None
    with pytest.raises(ConfigurationError, match="cannot read 'letters'") as refused:
        next(away.read())
    assert "secret" not in str(refused.value)
    assert "secret" not in away.shown


async def test_a_dumped_list_is_the_same_as_the_list(server, tmp_path):
    filled(server, {"letters": [letter(n) for n in range(3)]})
    with library.Redis.from_url(server) as client:
        elements = client.lrange("letters", 0, 100)
    file = tmp_path / "dump"
    file.write_bytes(b"".join(each + b"\n" for each in elements))
    async with memory() as sf:
        one = await sf.imports.bring_in(dump(str(file)), known_shapes.LETTERS, by="ann")
        other = await sf.imports.bring_in(redis(server, "letters"), known_shapes.LETTERS, by="ann")
    assert (dict(one.outcomes), dict(other.outcomes)) == ({"dead": 3}, {"known": 3})


@pytest.mark.skipif(not has_real_redis(), reason="needs redis-cli, which comes with redis-server")
def test_redis_cli_writes_such_a_dump(tmp_path):
    with real_redis(tmp_path) as address:
        filled(address, {"letters": [letter(1), letter(2)]})
        command = ["redis-cli", "-u", address, "--raw", "LRANGE", "letters", "0", "-1"]
        written = subprocess.run(command, capture_output=True, check=True).stdout
    (tmp_path / "dump").write_bytes(written)
    assert [each.raw for each in dump(str(tmp_path / "dump")).read()] == [letter(1), letter(2)]
