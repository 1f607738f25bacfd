"""What forms do: each is one verb of the API, with its right, its body and its refusals, and leads back to a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from standfast.access import Grant
from standfast.application import Standfast
from standfast.dashboard.drawing import part
from standfast.dashboard.forms import body, check_ours, read
from standfast.dashboard.pages import Drawn, Elsewhere, answered, ask_to_sign_in, refused
from standfast.errors import StandfastError
from standfast.server.auth import Gatekeeper, check_right
from standfast.server.problems import Problem, of_error
from standfast.server.routes import Call, Route

Ends = Callable[[Call, Any], Drawn | Elsewhere]


class Action(NamedTuple):
    """A form's address, the verb of the API behind it, and the page it ends at."""

    path: str
    method: str
    route: str
    ends: Ends


def back(page: str, done: str) -> Ends:
    """Lead to a page, which says what was done."""

    def ends(call: Call, said: Any) -> Elsewhere:
        named = {name: part(value) for name, value in {**_names(said), **call.path}.items()}
        return Elsewhere(f"{page.format_map(named)}?done={done}")

    return ends


def _names(said: Any) -> dict[str, Any]:
    return {"id": said["id"]} if isinstance(said, dict) and "id" in said else {}


def _planned(call: Call, said: Any) -> Drawn:
    return Drawn("plan.html", {"plan": said, "filter": call.body.filter.filter()})


def _minted(_: Call, said: Any) -> Drawn:
    return Drawn("token.html", {"made": said})


def _tried(call: Call, said: Any) -> Drawn:
    return Drawn("policy_check.html", {"found": said, "text": call.body.text})


def _letter(verb: str) -> Action:
    return Action(f"/dead-letters/{{id}}/{verb}", "POST", f"/dead-letters/{{id}}/{verb}", back("/jobs/{id}", verb))


ACTIONS = (
    Action("/jobs/{id}/retry", "POST", "/jobs/{id}/retry", back("/jobs/{id}", "retry")),
    Action("/jobs/{id}/cancel", "POST", "/jobs/{id}/cancel", back("/jobs/{id}", "cancel")),
    *(_letter(verb) for verb in ("replay", "amend", "resolve", "discard", "quarantine")),
    Action("/dead-letters/plan", "POST", "/dead-letters/plan", _planned),
    Action("/redrives", "POST", "/redrives", back("/redrives/{id}", "redrive")),
    Action("/redrives/{id}/pause", "POST", "/redrives/{id}/pause", back("/redrives/{id}", "redrive-pause")),
    Action("/redrives/{id}/resume", "POST", "/redrives/{id}/resume", back("/redrives/{id}", "redrive-resume")),
    Action("/redrives/{id}/cancel", "POST", "/redrives/{id}/cancel", back("/redrives/{id}", "redrive-cancel")),
    Action("/approvals/{id}/approve", "POST", "/approvals/{id}/approve", back("/approvals/{id}", "approve")),
    Action("/approvals/{id}/deny", "POST", "/approvals/{id}/deny", back("/approvals/{id}", "deny")),
    Action("/queues/{name:path}/pause", "POST", "/queues/{name}/pause", back("/queues/{name}", "pause")),
    Action("/queues/{name:path}/resume", "POST", "/queues/{name}/resume", back("/queues/{name}", "resume")),
    Action("/schedules/{name:path}/pause", "POST", "/schedules/{name}/pause", back("/schedules", "schedule-pause")),
    Action("/schedules/{name:path}/resume", "POST", "/schedules/{name}/resume", back("/schedules", "schedule-resume")),
    Action("/schedules/{name:path}/remove", "DELETE", "/schedules/{name}", back("/schedules", "schedule-remove")),
    Action("/workflows/{id}/cancel", "POST", "/workflows/{id}/cancel", back("/workflows/{id}", "workflow-cancel")),
    Action("/policy/check", "POST", "/policy/check", _tried),
    Action("/tokens", "POST", "/tokens", _minted),
    Action("/tokens/{name:path}/revoke", "DELETE", "/tokens/{name}", back("/tokens", "revoke")),
)


def endpoint(sf: Standfast, gate: Gatekeeper, action: Action, route: Route) -> Callable[[Request], Awaitable[Response]]:
    """Give what serves a form: it has what the API's verb has done, as whoever is signed in."""

    async def serve(request: Request) -> Response:
        grant = await gate.signed_in(request)
        if grant is None:
            return ask_to_sign_in(request)
        try:
            return answered(request, grant, await _done(sf, grant, action, route, request))
        except Problem as problem:
            return refused(request, grant, problem)
        except StandfastError as error:
            return refused(request, grant, of_error(error))

    return serve


async def _done(sf: Standfast, grant: Grant, action: Action, route: Route, request: Request) -> Drawn | Elsewhere:
    fields = await read(request)
    check_ours(request, fields)
    check_right(grant, route.right, route.also)
    given = None if route.body is None else body(fields, route.body)
    call = Call(sf, grant, request.path_params, None, given, request)
    return action.ends(call, (await route.does(call)).value)
