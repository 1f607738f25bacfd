"""A page as a value (who may see it and what it shows), and how a visit to it is served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from standfast.application import Standfast
from standfast.dashboard.drawing import draw
from standfast.dashboard.forms import read_filters
from standfast.dashboard.shared_cache import CachedAnswer, SharedCache
from standfast.errors import ConfigurationError, StandfastError
from standfast.server import cookies
from standfast.server.auth import Gatekeeper, check_right
from standfast.server.problems import Problem, of_error
from standfast.wings.access.words import Grant, Right

SEE_OTHER = 303
UNAUTHENTICATED = 401
UNUSABLE = 422
"""The status of a list whose filter cannot be used, as in the API."""
NOT_KEPT = {"Cache-Control": "no-store"}
NO_FILTERS = frozenset({"cursor", "done", "code"})
"""Query names that are not filters: a list's cursor, and messages about earlier actions."""


class Visit(NamedTuple):
    """One visit to a page."""

    sf: Standfast
    grant: Grant
    path: Mapping[str, str]
    query: Mapping[str, str]
    request: Request
    cache: SharedCache

    @property
    def root(self) -> str:
        """Where the dashboard is mounted: the prefix of all its addresses."""
        return root_of(self.request)

    async def cached_stats(self) -> CachedAnswer:
        """Return the counts over all queues, fresh or from a moment ago, with their age."""
        return await self.cache.get("stats", self.sf.stats)

    async def stats(self) -> dict[str, Any]:
        """Return the counts over all queues, fresh or from a moment ago."""
        return cast("dict[str, Any]", (await self.cached_stats()).value)

    async def health(self) -> dict[str, Any]:
        """Return the health over all queues, fresh or from a moment ago."""
        return cast("dict[str, Any]", (await self.cache.get("health", self.sf.health)).value)

    async def queues(self) -> dict[str, dict[str, Any]]:
        """Return every queue with its rules, fresh or from a moment ago."""
        return cast("dict[str, dict[str, Any]]", (await self.cache.get("queues", self.sf.queues.describe)).value)

    def filters(self, shape: type[Struct], *own: str) -> dict[str, str]:
        """Return the filters in the address, as the API reads them; `own` are other query names that the page knows."""
        given = self.request.query_params.multi_items()
        return read_filters([each for each in given if each[0] not in {*own, *NO_FILTERS}], shape)

    def form_values(self, *names: str) -> dict[str, str]:
        """Return what a form without a filter struct asked for; names that the page does not know are refused."""
        given = [name for name, _ in self.request.query_params.multi_items()]
        unknown = next((name for name in given if name not in {*names, *NO_FILTERS}), None)
        if unknown is not None:
            raise ConfigurationError.unknown("filter", unknown[:50], names)
        twice = next((name for name in names if given.count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(f"the filter {twice} is given twice")
        return self.typed(*names)

    def typed(self, *names: str) -> dict[str, str]:
        """Return the non-empty values of a form's fields."""
        return {name: self.query[name].strip() for name in names if self.query.get(name, "").strip()}

    def cursor(self) -> int | None:
        """Return where a list continues."""
        return read_cursor(self.query.get("cursor", ""))


def read_cursor(given: str) -> int | None:
    """Read where a list continues; an invalid cursor starts at the beginning."""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None  # noqa: PLR2004 - 64 bits


class RenderedPage(NamedTuple):
    """What a page shows: a template and its context."""

    template: str
    context: dict[str, Any]
    status: int = 200


class Redirect(NamedTuple):
    """A redirect to another page of the dashboard."""

    address: str


Shows = Callable[[Visit], Awaitable[RenderedPage | Redirect]]
Serves = Callable[[Request, Grant], Awaitable[RenderedPage | Redirect]]


class Page(NamedTuple):
    """One page, and the right it needs; `also` is another right that is sufficient, but limited to the caller's own."""

    path: str
    shows: Shows
    right: Right = Right.READ
    also: Right | None = None


def endpoint(
    sf: Standfast, gate: Gatekeeper, cache: SharedCache, page: Page
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that serves a page."""

    async def shown(request: Request, grant: Grant) -> RenderedPage | Redirect:
        check_right(grant, page.right, page.also)
        return await page.shows(Visit(sf, grant, request.path_params, request.query_params, request, cache))

    return page_endpoint(gate, shown)


def page_endpoint(gate: Gatekeeper, shows: Serves) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint for signed-in people; refusals are shown as a page, even while the store is away."""

    async def serve(request: Request) -> Response:
        grant = None
        try:
            grant = await gate.signed_in(request)
            return ask_to_sign_in(request) if grant is None else respond(request, grant, await shows(request, grant))
        except Problem as problem:
            return refusal_page(request, grant, problem)
        except StandfastError as error:
            return refusal_page(request, grant, of_error(error))

    return serve


def respond(request: Request, grant: Grant, found: RenderedPage | Redirect) -> Response:
    """Render a page, or redirect to another."""
    if isinstance(found, Redirect):
        return RedirectResponse(f"{root_of(request)}{found.address}", SEE_OTHER, NOT_KEPT)
    return render(request, found, grant)


def render(request: Request, found: RenderedPage, grant: Grant | None = None) -> Response:
    """Render a page."""
    about = {
        "root": root_of(request),
        "here": request.scope["path"].removeprefix(root_of(request)),
        "address": _address(request),
        "grant": grant,
        "may": frozenset() if grant is None else frozenset(str(right) for right in Right if grant.may(right)),
        "csrf": cookies.csrf_of(request),
        "signs_out": cookies.session_secret(request) is not None,
        "done": request.app.state.messages.get(request.query_params.get("done", "")),
    }
    text = draw(found.template, {**about, **found.context})
    return Response(text, found.status, NOT_KEPT, media_type="text/html")


def refusal_page(request: Request, grant: Grant | None, problem: Problem) -> Response:
    """Say on a page what was refused, and what to do next."""
    response = render(request, RenderedPage("problem.html", {"problem": problem}, problem.status), grant)
    response.headers.update(problem.headers or {})
    return response


def ask_to_sign_in(request: Request, *, wrong: str | None = None) -> Response:
    """Show the sign-in page; the wanted page follows after signing in."""
    wanted = _address(request) if request.method == "GET" else ""
    context = {"wrong": wrong, "wanted": wanted.removeprefix(root_of(request))}
    return render(request, RenderedPage("sign_in.html", context, UNAUTHENTICATED))


def root_of(request: Request) -> str:
    """Return where the dashboard is mounted."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def _address(request: Request) -> str:
    """Return the address of this page, without one-time messages."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in {"done", "code"}]
    path = quote(request.scope["path"])
    return f"{path}?{urlencode(kept)}" if kept else path
