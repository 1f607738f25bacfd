"""A tool for each published handler, with the name, description and annotations that the handler declares."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from mcp.types import Tool, ToolAnnotations

from standfast.errors import PayloadRejected
from standfast.mcp.arguments import unknown_arguments
from standfast.mcp.schemas import PAYLOAD, Input, fields_of, input_of, misfit
from standfast.mcp.tool_listing import Length
from standfast.mcp.tool_names import tool_names
from standfast.printable import visible
from standfast.wings.queues.card_scripts import PublishedHandler

KEY = "idempotency_key"
"""The argument besides the payload: calls with the same key run once."""
NEEDS_CONSENT = " Needs consent."


class HandlerTool(NamedTuple):
    """One published handler as a tool."""

    name: str
    handler: PublishedHandler
    input: Input

    @property
    def target(self) -> str:
        """The handler, as `run` names it."""
        return f"{self.handler.queue}/{self.handler.name}"

    @property
    def takes_key(self) -> bool:
        """Whether the tool takes a key besides the payload; not if the payload has a field of that name."""
        return self.input.wrapped or KEY not in self.input.schema.get("properties", {})

    def call_of(self, arguments: Mapping[str, Any]) -> tuple[Any, str | None]:
        """Split the arguments of a call into payload and key; refuse arguments that do not fit."""
        given = dict(arguments)
        key = given.pop(KEY, None) if self.takes_key else None
        wrong = self._unknown(given, (KEY,) if self.takes_key else ()) or misfit(self.input.schema, given)
        if wrong is None and not (key is None or isinstance(key, str)):
            wrong = f"{KEY} must be text"
        if wrong is not None:
            raise self._rejected(wrong)
        return (given[PAYLOAD] if self.input.wrapped else given), key

    def check_payload(self, payload: Any) -> None:
        """Refuse fields that the handler does not have; other misfits are refused where it runs."""
        wrong = self._unknown(payload) if isinstance(payload, Mapping) and not self.input.wrapped else None
        if wrong is not None:
            raise self._rejected(wrong)

    def _unknown(self, given: Iterable[str], also: Iterable[str] = ()) -> str | None:
        fields = fields_of(self.input.schema)
        return None if fields is None else unknown_arguments(given, [*fields, *also])

    def _rejected(self, wrong: str) -> PayloadRejected:
        return PayloadRejected(f"the arguments do not fit {self.name}, and nothing was done: {wrong}")

    def listed(self, length: Length) -> Tool:
        """Return the tool for `tools/list`, in one of its lengths."""
        return Tool(
            name=self.name,
            description=_description(self.handler, length.description),
            input_schema=self._schema(length),
            annotations=length.annotations(annotations_of(self.handler)),
        )

    def _schema(self, length: Length) -> dict[str, Any]:
        schema = length.schema(self.input.schema)
        if not (self.takes_key and length.key):
            return schema
        # A model that sees only the key in the schema would take it for the only argument.
        others = {} if "properties" in schema else {"additionalProperties": True}
        return {**schema, "properties": {**schema.get("properties", {}), KEY: {"type": "string"}}, **others}

    def described(self) -> dict[str, Any]:
        """Return everything that is published about the handler."""
        facts = self.handler
        return {
            "tool": self.name,
            "handler": self.target,
            "description": facts.description,
            "replay": facts.replay_mode,
            "risk": facts.risk,
            "effects": msgspec.json.decode(facts.effects),
            "consent": bool(facts.consent),
            "input": self.input.schema,
        }


def handler_tools(handlers: Iterable[PublishedHandler], taken: Collection[str]) -> dict[str, HandlerTool]:
    """Return the tools of handlers, by name."""
    known = {(each.queue, each.name): each for each in handlers}
    named = tool_names(known, taken)
    return {name: HandlerTool(name, known[each], input_of(known[each].input_schema)) for name, each in named.items()}


def annotations_of(handler: PublishedHandler) -> ToolAnnotations:
    """Say what a call of the handler may do. Anything undeclared is assumed: clients decide by these hints.

    No declaration says that a handler changes nothing. A low-risk handler destroys nothing. Calling it again with the
    same arguments is harmless if that was declared: it is repeated without a look, has no effect to look for, and is of
    low risk.
    """
    harmless = handler.risk == "low"
    repeatable = handler.replay_mode == "replay" and not msgspec.json.decode(handler.effects)
    return ToolAnnotations(
        read_only_hint=False,
        destructive_hint=not harmless,
        idempotent_hint=harmless and repeatable,
        open_world_hint=True,
    )


def _description(handler: PublishedHandler, longest: int) -> str:
    first = " ".join(visible(handler.description).partition("\n\n")[0].split())
    words = first or f"Runs {handler.queue}/{handler.name}."
    cut = words if len(words) <= longest else f"{words[: longest - 3]}..."
    return f"{cut}{NEEDS_CONSENT}" if handler.consent else cut
