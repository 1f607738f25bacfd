"""A drill: a throwaway letter goes through a denied replay, end to end, in a store of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from standfast.application import Standfast
from standfast.errors import Permanent
from standfast.settings import Setting
from standfast.testing.kit import drain
from standfast.views import JobView
from standfast.wings.policy.load import read_policy
from standfast.wings.policy.rules import Broken

QUEUE = "drill"
WHY = "this is a drill"
POLICY = f"""version: v1
dlq_rules:
  - match: {{queue: {QUEUE}}}
    action: quarantine
    owner: drill
replay_rules:
  - match: {{queue: {QUEUE}}}
    decision: deny
    why: {WHY}
"""


class Step(msgspec.Struct, frozen=True):
    """One requirement, whether it holds, and the evidence."""

    what: str
    ok: bool
    seen: str


class Drill:
    """The whole drill; `steps` is its report."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.down = True
        self.runs = 0

    @property
    def passed(self) -> bool:
        """Whether every step succeeded."""
        return all(step.ok for step in self.steps)

    def note(self, what: str, *, ok: bool, seen: str) -> None:
        """Record a step."""
        self.steps.append(Step(what, ok, seen))


async def drill(configured: Setting) -> Drill:
    """Run all steps. The real store is not opened."""
    course = Drill()
    _read_configured(course, configured)
    with tempfile.TemporaryDirectory(prefix="standfast-drill-") as directory:
        sf = Standfast(Path(directory) / "drill.db")
        sf.policy.keep_out()
        async with sf:
            await _walk(course, sf)
    return course


def _read_configured(course: Drill, configured: Setting) -> None:
    path = Path(configured.value)
    if configured.source == "default" and not path.exists():
        course.note("the configured policy can be read", ok=True, seen="none is configured: the built-in one holds")
        return
    read = read_policy(path.read_bytes() if path.exists() else None, str(path))
    ok = not isinstance(read, Broken)
    course.note("the configured policy can be read", ok=ok, seen=f"{path}: {read.snapshot if ok else _problem(read)}")


def _problem(read: Any) -> str:
    return str(read.problem)


async def _walk(course: Drill, sf: Standfast) -> None:
    _declare(course, sf)
    snapshot = await sf.policy.load(POLICY)
    course.note("a policy that denies is in force", ok=sf.policy.snapshot == snapshot, seen=snapshot)
    receipt = await sf.enqueue(QUEUE, {"drill": True}, requester="drill")
    await drain(sf)
    dead = await _job(sf, receipt.id)
    _judge_death(course, dead, snapshot)
    await _be_denied(course, sf, dead)
    await _audited(course, sf, dead, snapshot)
    await _mend(course, sf, dead)


def _declare(course: Drill, sf: Standfast) -> None:
    sf.queue(QUEUE, attempts=1)

    @sf.handler(QUEUE)
    async def fail(job: Any) -> dict[str, Any]:
        course.runs += 1
        if course.down:
            raise Permanent("made to fail, for the drill")
        return {"done": job.payload}


def _judge_death(course: Drill, dead: JobView, snapshot: str) -> None:
    said = dead.triage
    rule = "" if said is None else f"{said.rule}: {said.action}, owner {said.owner}"
    course.note("the job dies and is judged by it", ok=dead.state == "dead" and "dlq_rules#1" in rule, seen=rule)
    kept = dead.policy_snapshot == snapshot and dead.fingerprint is not None
    course.note("the letter names its cause and its policy", ok=kept, seen=f"cause {dead.fingerprint}")


async def _be_denied(course: Drill, sf: Standfast, dead: JobView) -> None:
    answer = await sf.dead_letters.replay(dead.id, by="drill", reason=WHY)
    seen = f"{answer['outcome']} by {answer.get('rule')}: {answer.get('why')}"
    course.note("its replay is denied", ok=answer["outcome"] == "denied" and answer["why"] == WHY, seen=seen)
    reply = await sf.retry(dead.id)
    denied = (reply["status"], reply.get("reason_code")) == ("failed", "denied")
    course.note("a retry is denied as well", ok=denied, seen=reply["hint"])
    await drain(sf)
    course.note("its handler did not run again", ok=course.runs == 1, seen=f"it ran {course.runs} time(s)")
    left = await _job(sf, dead.id)
    same = (left.state, left.payload_sha256, left.replays) == ("dead", dead.payload_sha256, 0)
    status = None if left.triage is None else left.triage.replay_status
    course.note("the letter is whole, and says so", ok=same and status == "denied", seen=f"{left.state}, {status}")


async def _audited(course: Drill, sf: Standfast, dead: JobView, snapshot: str) -> None:
    found = await sf.audit.entries(job=dead.id, kind="deny")
    ok = [(each["outcome"], each["snapshot"]) for each in found] == [("denied", snapshot)]
    course.note("the denial is in the audit", ok=ok, seen=f"{len(found)} entry, by {found[0]['by'] if found else '-'}")
    verdict = await sf.audit.verify()
    course.note("the audit chain is whole", ok=verdict["ok"], seen=f"{verdict['entries']} decisions")


async def _mend(course: Drill, sf: Standfast, dead: JobView) -> None:
    course.down = False
    await sf.policy.load(POLICY.replace("decision: deny", "decision: allow"))
    answer = await sf.dead_letters.replay(dead.id, by="drill", reason="the drill is over")
    await drain(sf)
    done = await _job(sf, dead.id)
    ok = (answer["outcome"], done.state) == ("replayed", "completed")
    course.note("once the policy allows it, it is replayed", ok=ok, seen=f"{answer['outcome']}, then {done.state}")


async def _job(sf: Standfast, id_: str | None) -> JobView:
    found = await sf.status(id_)
    if found is None:
        raise LookupError(f"the drill's job {id_} is gone")
    return found
