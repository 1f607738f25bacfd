"""Two versions of an application run at once: their declarations differ, and health says so."""

from __future__ import annotations

import re
import socket
from typing import Any

from standfast import Standfast
from tests.waiting import ended, seen
from tests.worker.inside import live_workers
from tests.worker.processes import Log, children

OLD: dict[str, Any] = {"mail": {"attempts": 3, "wait": 0.01}}
PROCESS = rf"pid \d+ on {re.escape(socket.gethostname())} has"
SET = "; start both from the same code, or set it in standfast.toml"
DEPLOY = "; start both from the same code"
OVERRULED = "mail: a live worker declares other rules than those in force; run one version everywhere"


async def issues(sf: Standfast) -> list[str]:
    found: list[str] = (await sf.health())["issues"]
    return [issue for issue in found if "declare" in issue]


def conflict(name: str, one: str, other: str, advice: str) -> re.Pattern[str]:
    """Give what health says of two processes that declare a rule differently."""
    sides = f"{PROCESS} {one}, {PROCESS} {other}"
    return re.compile(f"{name}: two live processes declare different rules: {sides}{re.escape(advice)}")


async def test_different_rules_of_two_live_processes_are_a_health_issue(disk, url, log: Log):
    disk.queue("mail", attempts=7)
    with children(url, log, rules=OLD):
        await seen(lambda: live_workers(disk, at_least=1))
        assert await issues(disk) == [OVERRULED], "a process without a worker declares too"
        async with disk.worker():
            [issue] = await issues(disk)
            assert conflict("mail", "attempts=3, backoff=.*", "attempts=7, backoff=.*", SET).fullmatch(issue)
        assert await issues(disk) == [OVERRULED], "the new version is gone, and its rules are still in force"


async def issues_are(sf: Standfast, expected: list[str]) -> bool:
    return await issues(sf) == expected


async def test_a_worker_declares_what_its_process_declared_last(disk):
    disk.queue("mail", lease=1)
    async with disk.worker():
        disk.queue("mail", lease=1, attempts=7)
        await seen(lambda: issues_are(disk, [OVERRULED]))
        await seen(lambda: issues_are(disk, []))


async def test_a_different_replay_mode_is_one_too(disk, url, log: Log):
    """One of the two would repeat what the other must never repeat."""

    @disk.handler("mail", replay="manual")
    async def handler(_job):
        pass

    with children(url, log):
        await seen(lambda: live_workers(disk, at_least=1))
        async with disk.worker():
            [issue] = await issues(disk)
            assert conflict("mail/mail", "replay=replay", "replay=manual", DEPLOY).fullmatch(issue)


async def test_what_follows_when_it_landed_is_one_too(disk, url, log: Log):
    """One of the two would complete what the other resumes."""

    @disk.handler("mail", when_landed="complete")
    async def handler(_job):
        pass

    with children(url, log):
        await seen(lambda: live_workers(disk, at_least=1))
        async with disk.worker():
            [issue] = await issues(disk)
            assert conflict("mail/mail", "when_landed=null", "when_landed=complete", DEPLOY).fullmatch(issue)


async def test_equal_declarations_are_no_issue(url, log: Log):
    with children(url, log, 2, rules=OLD):
        async with Standfast(url) as sf:
            await seen(lambda: live_workers(sf, at_least=2))
            assert await issues(sf) == []


async def test_the_last_published_rules_are_in_force_in_every_process(disk, url, log: Log):
    """The old version runs the job, under the rules the new one published after it."""
    with children(url, log, rules=OLD):
        await seen(lambda: live_workers(disk, at_least=1))
        before = await ended(disk, (await disk.enqueue("mail", {"name": "before", "do": "fail"})).id)
        disk.queue("mail", attempts=2, backoff=lambda _repeat: 0)
        after = await ended(disk, (await disk.enqueue("mail", {"name": "after", "do": "fail"})).id)
    assert (before.attempts, before.max_attempts) == (3, 3)
    assert (after.attempts, after.max_attempts, after.reason) == (2, 2, "max_attempts")


async def test_a_file_without_the_code_is_compared_only_in_the_rules_it_names(disk, url, tmp_path, monkeypatch):
    disk.queue("mail", attempts=7)
    disk.handler("mail")(print)
    async with disk.worker():
        (tmp_path / "standfast.toml").write_text("[queues.mail]\nattempts = 7\n")
        monkeypatch.setenv("STANDFAST_CONFIG", str(tmp_path / "standfast.toml"))
        async with Standfast(url) as other, other.worker():
            assert await issues(disk) == []
        (tmp_path / "standfast.toml").write_text("[queues.mail]\nattempts = 9\n")
        async with Standfast(url) as other, other.worker():
            [issue] = await issues(disk)
            assert conflict("mail", "attempts=7", "attempts=9", SET).fullmatch(issue)
