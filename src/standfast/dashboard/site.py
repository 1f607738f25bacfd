"""All pages, forms and files of the dashboard, as routes for the server."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path

from standfast.application import Standfast
from standfast.dashboard import actions, signing_in, statics
from standfast.dashboard import page as pages
from standfast.dashboard.page import NOT_KEPT
from standfast.dashboard.shared_cache import SharedCache
from standfast.dashboard.sitemap import ACTIONS, PAGES
from standfast.errors import StoreUnavailable
from standfast.server.auth import Gatekeeper
from standfast.server.problems import RETRY_AFTER, Problem
from standfast.server.route import Route
from standfast.wings.access.words import Right
from standfast.wings.health.series import Series, columns
from standfast.wings.jobs import many


class Site:
    """The dashboard of one server."""

    def __init__(self, sf: Standfast, gate: Gatekeeper, routes: Sequence[Route]) -> None:
        self._gate = gate
        self._series = Series(sf)
        self._cache = SharedCache()
        self.messages = actions.messages(ACTIONS)
        verbs = {(each.method, each.path): each for each in routes}
        forms = [
            Path(
                each.path,
                actions.endpoint(sf, gate, self._cache, each, verbs[each.method, each.route]),
                methods=["POST"],
            )
            for each in ACTIONS
        ]
        self.paths = [
            Path("/static/{name:path}", statics.serve, methods=["GET"]),
            Path("/sign-in", signing_in.by_link(gate), methods=["GET"]),
            Path("/sign-in", signing_in.by_token(sf, gate), methods=["POST"]),
            Path("/sign-out", signing_in.sign_out(gate), methods=["POST"]),
            Path("/live/series", self._lines, methods=["GET"]),
            Path("/jobs/many", many.endpoint(sf, gate, self._cache), methods=["POST"]),
            *forms,
            *(Path(each.path, pages.endpoint(sf, gate, self._cache, each), methods=["GET"]) for each in PAGES),
        ]

    async def _lines(self, request: Request) -> Response:
        """Return the data of the charts. It covers all queues together: a token that reaches only some gets none."""
        try:
            grant = await self._gate.signed_in(request)
        except StoreUnavailable:
            return Response(status_code=503, headers={**NOT_KEPT, **RETRY_AFTER})
        if grant is None or not grant.may(Right.READ):
            return Response(status_code=401, headers=NOT_KEPT)
        lines = msgspec.json.encode(columns(self._series.look() if grant.queues is None else []))
        return Response(lines, headers=NOT_KEPT, media_type="application/json")

    async def nowhere(self, request: Request) -> Response:
        """Say on a page that an address does not exist, and link to the overview."""
        try:
            grant = await self._gate.signed_in(request)
        except StoreUnavailable:  # then nobody can be identified, so everyone is told
            grant = None
        hint = "Check the address, or begin at the overview."
        return pages.refusal_page(request, grant, Problem(404, "not-found", "Nothing is at this address.", hint))

    async def close(self) -> None:
        """Stop sampling and asking."""
        await self._series.close()
        await self._cache.close()
