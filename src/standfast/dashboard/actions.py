"""The forms: each performs one operation of the API, with its right, body and refusals, and leads back to a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from standfast.application import Standfast
from standfast.dashboard.drawing import part
from standfast.dashboard.forms import body, entries, read_ours
from standfast.dashboard.page import Redirect, RenderedPage, page_endpoint
from standfast.dashboard.shared_cache import SharedCache
from standfast.errors import StandfastError
from standfast.server.api import checked_path
from standfast.server.auth import Gatekeeper, check_right
from standfast.server.problems import Problem, of_error
from standfast.server.route import Call, Route, perform
from standfast.wings.access.words import Grant

Ends = Callable[[Call, Any], RenderedPage | Redirect]
MISFIT = 422
ASKED = "asked"
ASKED_FOR = (
    "Nothing ran yet: the policy requires a person to approve it first. This is the approval that was requested."
)


class Action(NamedTuple):
    """A form's address, the API operation behind it, and the page that it leads to."""

    path: str
    method: str
    route: str
    ends: Ends


class ReturnTo(msgspec.Struct, frozen=True):
    """Redirects to a page that says what was done: the address contains the message's name, never its words."""

    page: str
    name: str
    says: str

    def __call__(self, call: Call, said: Any) -> Redirect:
        """Return the redirect, filled in with values from the call and its answer."""
        named = {name: part(value) for name, value in {**_names(said), **call.path}.items()}
        return Redirect(f"{self.page.format_map(named)}?done={self.name}")


def messages(actions: Iterable[Action]) -> dict[str, str]:
    """Return the messages that pages show after an action, by their names in the address."""
    found = {ASKED: ASKED_FOR}
    for each in actions:
        found |= {each.ends.name: each.ends.says} if isinstance(each.ends, ReturnTo) else getattr(each.ends, "says", {})
    return found


def _names(said: Any) -> dict[str, Any]:
    return {"id": said["id"]} if isinstance(said, dict) and "id" in said else {}


def endpoint(
    sf: Standfast, gate: Gatekeeper, cache: SharedCache, action: Action, route: Route
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a form: it performs the API operation as the signed-in person.

    The pages' cache is cleared, so that the next page shows the new state.
    """

    async def did(request: Request, grant: Grant) -> RenderedPage | Redirect:
        fields = await read_ours(request)
        check_right(grant, route.right, route.also)
        try:
            given = None if route.body is None else body(fields, route.body)
            call = Call(sf, grant, checked_path(request), None, given, request)
            said = (await perform(route, call)).value
            cache.forget()
            return action.ends(call, said)
        except Problem as problem:
            return _after_problem(problem, route, fields)
        except StandfastError as error:
            return _after_problem(of_error(error), route, fields)

    return page_endpoint(gate, did)


def _after_problem(problem: Problem, route: Route, fields: Mapping[str, str]) -> RenderedPage | Redirect:
    """Redirect to the approval that was requested, or show the form again as it was filled in."""
    if "approval" in problem.more:
        return Redirect(f"/approvals/{part(problem.more['approval'])}?done={ASKED}")
    if problem.status != MISFIT or route.body is None:
        raise problem
    kept = {name: text for name, text in fields.items() if name.startswith("filter.")}
    return RenderedPage(
        "again.html", {"problem": problem, "asked": entries(route.body, fields), "kept": kept}, problem.status
    )
