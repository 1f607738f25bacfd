"""The API's document, OpenAPI 3.1, drawn from the routes themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from standfast.server.route import Nothing, Route
from standfast.wings.ingest.routes import PATH as INGEST

REFUSALS = {
    400: "Not JSON, or a header that cannot be used",
    401: "No token, or one that does not count",
    403: "Not allowed for this role, queue or policy",
    404: "There is no such thing",
    409: "It is not where this could be done",
    413: "Too large",
    415: "A form where JSON is wanted",
    421: "The server does not answer to this name",
    422: "It does not fit",
    429: "The queue is full; come back after Retry-After",
    503: "The store does not answer; send the same request again",
    507: "The disk is nearly full",
}
REF = "#/components/schemas/{name}"


def document(routes: Iterable[Route], version: str = "v1") -> dict[str, Any]:
    """Draw the document."""
    known = list(routes)
    shapes = [each for route in known for each in (route.query, route.body) if each not in {None, Nothing}]
    schemas, components = msgspec.json.schema_components(shapes, ref_template=REF)
    of = dict(zip(shapes, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in known:
        paths.setdefault(f"/api/v1{route.path}", {})[route.method.lower()] = _operation(route, of, components)
    paths[f"/api/v1{INGEST}"] = {"post": _ingest()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "standfast",
            "version": version,
            "description": "A durable queue that knows about side effects.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": _PROBLEM},
            "responses": {str(status): _problem(why) for status, why in REFUSALS.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "hint"],
    "properties": {
        **{name: {"type": "string"} for name in ("type", "title", "detail", "hint")},
        "status": {"type": "integer"},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}


def _ingest() -> dict[str, Any]:
    """Describe the one thing that needs no token: what comes in is signed."""
    refusals = (401, 404, 413, 421, 422, 429, 503, 507)
    return {
        "summary": "Take a signed webhook of github, or of another source that the settings name",
        "operationId": "post_ingest_source",
        "security": [],
        "parameters": [{"name": "source", "in": "path", "required": True, "schema": {"type": "string"}}],
        "requestBody": {"content": {"application/json": {"schema": {}}}},
        "responses": {
            **{str(status): _json({}, "Taken, or found to ask for nothing") for status in (201, 202, 200)},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in refusals},
        },
    }


def _operation(route: Route, of: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}{route.path.replace('/', '_').replace('{', '').replace('}', '')}",
        "description": f"Needs the right to {route.right.replace('_', ' ')}.",
        "parameters": [
            *_path_parameters(route),
            *_query_parameters(route, of, components),
            *({"name": name, "in": "header", "schema": {"type": "string"}} for name in route.headers),
        ],
        "responses": {
            **{str(status): _done(route) for status in route.answers},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in REFUSALS},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": of[route.body]}}}
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(route: Route, of: dict[Any, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    if route.query is Nothing:
        return []
    properties = components[of[route.query]["$ref"].rpartition("/")[2]]["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]


def _done(route: Route) -> dict[str, Any]:
    return {"description": "Done", "content": {route.gives: {"schema": {}}}}


def _json(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _problem(why: str) -> dict[str, Any]:
    schema = {"$ref": REF.format(name="Problem")}
    return {"description": why, "content": {"application/problem+json": {"schema": schema}}}


def served(routes: Iterable[Route]) -> Callable[[Request], Awaitable[Response]]:
    """Give what serves the document; it tells nothing of the store and needs no token."""
    drawn = document(routes)

    async def serve(request: Request) -> Response:
        here = {**drawn, "servers": [{"url": request.scope.get("root_path") or "/"}]}
        return Response(msgspec.json.encode(here), media_type="application/json")

    return serve
