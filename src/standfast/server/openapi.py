"""The API's OpenAPI 3.1 document, generated from the routes themselves."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from standfast.doors.filters import FilterField, fields_of
from standfast.server.route import Route
from standfast.wings.ingest.routes import PATH as INGEST
from standfast.wings.ingest.shapes import DeliveryOutcome, DeliveryOutcomes

REFUSALS = {
    400: "Not JSON, or a header that cannot be used",
    401: "No token, or one that is unknown, expired or revoked",
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
NAMES = {
    "Action": "TriageAction",
    "Change": "PolicyChange",
    "Class": "FailureClass",
    "Folded": "CoalescedJob",
    "Limit": "ConcurrencyLimit",
    "Progress": "WorkflowState",
    "Rate": "RateLimit",
    "WantedLetters": "LetterFilter",
}
"""Better schema names for classes whose names say too little outside their modules."""
JSON = "application/json"
LINES = "application/x-ndjson"
NO_CONTENT = 204


def document(routes: Iterable[Route], version: str = "v1") -> dict[str, Any]:
    """Generate the document."""
    known = list(routes)
    drawn = _Schemas(known)
    paths: dict[str, dict[str, Any]] = {}
    for route in known:
        paths.setdefault(f"/api/v1{route.path}", {})[route.method.lower()] = _operation(route, drawn)
    paths[f"/api/v1{INGEST}"] = {"post": _ingest(drawn)}
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
            "schemas": {**drawn.components, "Problem": _PROBLEM},
            "responses": {str(status): _problem(why) for status, why in REFUSALS.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Schemas:
    """The JSON schemas of what routes take and return, made from their types."""

    def __init__(self, routes: Iterable[Route]) -> None:
        named = [shape for route in routes for shape in (route.body, route.lines, route.answer, route.answer_line)]
        shapes = [*dict.fromkeys(shape for shape in (*named, DeliveryOutcome, DeliveryOutcomes) if shape is not None)]
        schemas, components = msgspec.json.schema_components(shapes, ref_template=REF)
        self._of: dict[Any, dict[str, Any]] = {
            shape: _renamed(schema) for shape, schema in zip(shapes, schemas, strict=True)
        }
        self.components = {_published(name): _renamed(schema) for name, schema in components.items()}

    def of(self, shape: Any) -> dict[str, Any]:
        """Return the schema of a type; one that fits everything for a route that does not declare its answer."""
        return self._of.get(shape, {})


def _published(name: str) -> str:
    return NAMES.get(name, name.removeprefix("Shown"))


def _renamed(schema: Any) -> Any:
    """Return a schema with published names, its own and those in its references."""
    if isinstance(schema, list):
        return [_renamed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _renamed(each) for name, each in schema.items()}
    if isinstance(found.get("$ref"), str):
        found["$ref"] = REF.format(name=_published(found["$ref"].rpartition("/")[2]))
    if isinstance(found.get("title"), str):
        found["title"] = _published(found["title"])
    return found


_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "hint"],
    "properties": {
        **{name: {"type": "string"} for name in ("type", "title", "detail", "hint")},
        "status": {"type": "integer"},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}


def _ingest(drawn: _Schemas) -> dict[str, Any]:
    """Describe the one operation that needs no token: deliveries are signed."""
    refusals = (401, 404, 413, 421, 422, 429, 503, 507)
    taken = {"anyOf": [drawn.of(DeliveryOutcome), drawn.of(DeliveryOutcomes)]}
    return {
        "summary": "Take a signed webhook of github, or of another source that the settings name",
        "operationId": "post_ingest_source",
        "security": [],
        "parameters": [{"name": "source", "in": "path", "required": True, "schema": {"type": "string"}}],
        "requestBody": {"content": {JSON: {"schema": {}}}},
        "responses": {
            **{str(status): _json(taken, "Taken, or found to ask for nothing") for status in (201, 202, 200)},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in refusals},
        },
    }


def _operation(route: Route, drawn: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.method.lower() + re.sub("[/:]", "_", re.sub("[{}]", "", route.path)),
        "description": f"Needs the right to {route.right.replace('_', ' ')}.",
        "parameters": [
            *_path_parameters(route),
            *_query_parameters(route),
            *({"name": name, "in": "header", "schema": {"type": "string"}} for name in route.headers),
        ],
        "responses": {
            **{str(status): _done(route, status, drawn) for status in route.answers},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in REFUSALS},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": drawn.of(route.body)}}}
    if route.lines is not None:
        lines = {**drawn.of(route.lines), "description": "JSON lines: one of these on each."}
        operation["requestBody"] = {"required": True, "content": {LINES: {"schema": lines}}}
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([route.query], ref_template=REF)
    properties = components[route.query.__name__]["properties"]
    said = {field.name: _description(field) for field in fields_of(route.query)}
    return [
        {"name": name, "in": "query", **said.get(name, {}), "schema": _inlined(each, components)}
        for name, each in properties.items()
    ]


def _description(field: FilterField) -> dict[str, str]:
    example = f" Such as `{field.about.example}`." if field.about.example else ""
    return {"description": f"{field.about.help}{example}"}


def _inlined(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema written out: an enumeration used by one parameter needs no name of its own."""
    if "$ref" in schema:
        return dict(components[schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return {**schema, "anyOf": [_inlined(each, components) for each in schema["anyOf"]]}
    return schema


def _done(route: Route, status: int, drawn: _Schemas) -> dict[str, Any]:
    if status == NO_CONTENT:
        return {"description": "Done"}
    schema = drawn.of(route.answer)
    if route.gives != JSON:
        return {"description": "Done", "content": {route.gives: {"schema": _streamed(schema)}}}
    done = _json(schema, "Done")
    if route.answer_line is not None:
        done["content"][LINES] = {"schema": drawn.of(route.answer_line)}
    return done


def _streamed(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a stream of server-sent events: OpenAPI 3.1 has no schema for it, only for the text of each event."""
    text = "Server-sent events; the `data:` of each is the JSON of `contentSchema`."
    return {"type": "string", "description": text, "contentMediaType": JSON, "contentSchema": schema}


def _json(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": schema}}}


def _problem(why: str) -> dict[str, Any]:
    schema = {"$ref": REF.format(name="Problem")}
    return {"description": why, "content": {"application/problem+json": {"schema": schema}}}


def served(routes: Iterable[Route]) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of the document; it reveals nothing about the store and needs no token."""
    drawn = document(routes)

    async def serve(request: Request) -> Response:
        here = {**drawn, "servers": [{"url": request.scope.get("root_path") or "/"}]}
        return Response(msgspec.json.encode(here), media_type="application/json")

    return serve
