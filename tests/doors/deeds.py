"""Everything the API changes, as requests that would succeed: made ready in a store, one for each route that acts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from standfast import Permanent, Standfast
from standfast.testing import drain

POLICY = """
version: v1
replay_rules:
  - {match: {labels: {ask: "yes"}}, decision: require_approval, approver_group: platform}
  - {match: {}, decision: allow}
"""
WHY = {"reason": "x"}


class Deed(NamedTuple):
    """A request for one route; `job` is the job it is about, where it is about one."""

    method: str
    route: str
    path: str
    body: Any = None
    job: str | None = None
    scope: Mapping[str, Any] = MappingProxyType({})
    """What its token is made for, where that matters."""


def declare(sf: Standfast) -> None:
    """Give a queue what its letters need."""
    sf.handler("echo")(lambda job: job.payload)
    for queue in ("refused", "spare", "asked"):

        @sf.handler(queue)
        async def refused(_job: Any) -> None:
            raise Permanent("no")

    sf.handler("consenting", consent=True)(lambda job: job.payload)
    sf.policy.load(POLICY)


async def made_ready(sf: Standfast) -> list[Deed]:
    """Put there what each request is about; they are to be made in this order."""
    verbs: dict[str, Any] = {"replay": {}, "amend": {"payload": 2}, "resolve": {"result": 1}, "discard": {}}
    letters = {verb: await _letter(sf) for verb in (*verbs, "quarantine")}
    asked = [await _approval(sf) for _ in range(2)]
    consents = [await _letter(sf, "consenting", session=f"consent-{n}") for n in range(2)]
    await _letter(sf, "spare")
    jobs = [str((await sf.enqueue("echo", 1, delay=3600)).id) for _ in range(2)]
    flow = sf.workflow("flow")
    flow.step("later", "echo", delay=3600)
    flow_id = await flow.start()
    step = (await sf.workflows.get(flow_id))["steps"]["later"]["job_id"]
    plan = (await sf.dead_letters.plan({"queue": "refused"}))["token"]
    await sf.schedules.add("nightly", "echo", every=3600)
    await sf.tokens.create("spare", person="nobody", role="viewer")
    one = "/dead-letters/{id}"
    return [
        Deed("POST", "/jobs", "/jobs", {"queue": "echo"}),
        Deed("POST", "/jobs:bulk", "/jobs:bulk", {"queue": "echo"}),
        Deed("POST", "/run", "/run", {"handler": "echo"}),
        Deed("POST", "/submit", "/submit", {"handler": "echo"}),
        Deed("POST", "/hand-over", "/hand-over", {"handler": "echo", "error": "down"}),
        Deed("POST", "/jobs/{id}/retry", f"/jobs/{jobs[0]}/retry", job=jobs[0]),
        Deed("POST", "/jobs/{id}/cancel", f"/jobs/{jobs[1]}/cancel", job=jobs[1]),
        Deed("POST", "/dead-letters/plan", "/dead-letters/plan", {"filter": {"queue": "refused"}}),
        Deed("POST", "/redrives", "/redrives", {"token": plan, "canary": 1, **WHY}),
        *(
            Deed("POST", f"/redrives/{{id}}/{turn}", f"/redrives/{plan}/{turn}")
            for turn in ("pause", "resume", "cancel")
        ),
        *(
            Deed("POST", f"{one}/{verb}", _at(letters, verb), {**more, **WHY}, letters[verb])
            for verb, more in verbs.items()
        ),
        Deed("POST", f"{one}/quarantine", _at(letters, "quarantine"), WHY, letters["quarantine"]),
        Deed("DELETE", "/dead-letters", "/dead-letters", {"filter": {"queue": "spare"}, "confirm": 1, **WHY}),
        Deed("POST", "/approvals/{id}/approve", f"/approvals/{asked[0]}/approve"),
        Deed("POST", "/approvals/{id}/deny", f"/approvals/{asked[1]}/deny", WHY),
        Deed("POST", "/consents", "/consents", {"session": "s1", "handler": "consenting", **WHY}),
        Deed("POST", "/consents/revoke", "/consents/revoke", {"session": "s1", "handler": "consenting", **WHY}),
        Deed("POST", "/consents/{id}/grant", f"/consents/{consents[0]}/grant", WHY, consents[0]),
        Deed("POST", "/consents/{id}/deny", f"/consents/{consents[1]}/deny", WHY, consents[1]),
        Deed("POST", "/queues/{name}/pause", "/queues/echo/pause"),
        Deed("POST", "/queues/{name}/resume", "/queues/echo/resume"),
        Deed("POST", "/breakers/try", "/breakers/try", {"dependency": "crm"}),
        Deed("POST", "/schedules", "/schedules", {"name": "hourly", "queue": "echo", "every": 3600}),
        Deed("POST", "/schedules/{name}/pause", "/schedules/nightly/pause"),
        Deed("POST", "/schedules/{name}/resume", "/schedules/nightly/resume"),
        Deed("DELETE", "/schedules/{name}", "/schedules/nightly"),
        Deed("POST", "/workflows/{id}/cancel", f"/workflows/{flow_id}/cancel", job=step),
        Deed("POST", "/sessions/{id}/inbox/{message}/ack", await _message(sf), scope={"sessions": ["zoe"]}),
        Deed("POST", "/policy/check", "/policy/check", {"text": POLICY}),
        Deed("POST", "/tokens", "/tokens", {"name": "more", "person": "eve", "role": "viewer"}),
        Deed("DELETE", "/tokens/{name}", "/tokens/spare"),
    ]


def _at(letters: dict[str, str], verb: str) -> str:
    return f"/dead-letters/{letters[verb]}/{verb}"


async def _letter(sf: Standfast, queue: str = "refused", **options: Any) -> str:
    made = str((await sf.enqueue(queue, 1, requester="zoe", **options)).id)
    await drain(sf)
    return made


async def _approval(sf: Standfast) -> str:
    letter = await _letter(sf, "asked", labels={"ask": "yes"})
    return str((await sf.dead_letters.replay(letter, by="bob"))["approval"])


async def _message(sf: Standfast) -> str:
    """Give the address that acknowledges a message of the session `zoe`."""
    await sf.submit("refused", 1, session="zoe")
    await drain(sf)
    [message] = await sf.inbox.list("zoe")
    return f"/sessions/zoe/inbox/{message['id']}/ack"
