"""The table of verbs and the doors: whatever a door has is a verb of the table, and what the table names is there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path as FilePath

import click
import pytest
from starlette.routing import Route as Path

from standfast import Standfast
from standfast.cli.main import main
from standfast.dashboard.sitemap import ACTIONS, PAGES
from standfast.doors.verbs import OF_THE_SHELL, VERBS, offers
from standfast.mcp.agent_server import TOOLS
from standfast.server.api_routes import ROUTES
from standfast.server.app import API, Server
from standfast.wings.ingest.routes import PATH as INGEST
from standfast.wings.redrives.verbs import Redrive
from standfast.wings.workflows.verbs import Workflow
from tests.doors.doors_page import page

TABLE = "src/standfast/doors/verbs.py"
RETURNED = {"redrive": Redrive, "workflow": Workflow}
"""What verbs return that has verbs of its own."""
OUTSIDE = frozenset({"GET /metrics", "GET /readyz"})
"""Verbs whose addresses do not stand under the API's."""
OF_THE_SERVER = frozenset(
    {
        *("GET /static/{name}", "GET /sign-in", "POST /sign-in", "POST /sign-out", "GET /live/series"),
        *("GET /healthz", f"GET {API}/openapi.json", "POST /mcp"),
    }
)
"""What a server answers about itself, without a verb."""


def named(door: str) -> set[str]:
    """Give what the table names at one door."""
    return {each for verb in VERBS for each in offers(getattr(verb, door))}


def verbs_of(kind: type) -> set[str]:
    """Give the public methods of a class."""
    return {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}


def verbs_of_the_application() -> Iterator[str]:
    """Give every verb of a Standfast, of its nouns, and of what they return, as somebody writes it."""
    sf = Standfast(":memory:")
    yield from verbs_of(Standfast)
    nouns = {name: part for name, part in vars(sf).items() if not name.startswith("_")}
    nouns["dead_letters.redrives"] = sf.dead_letters.redrives
    kinds = {name: type(part) for name, part in nouns.items() if type(part).__module__.startswith("standfast.wings.")}
    for name, kind in (kinds | RETURNED).items():
        yield from (f"{name}.{verb}" for verb in verbs_of(kind))


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Give every command with what is typed for it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def typed(path: str) -> str:
    """Give an address as the table writes it: without the kinds of its parts."""
    return re.sub(r":\w+}", "}", path)


def served() -> set[str]:
    """Give every address of a server, with its method."""
    found = Server(Standfast(":memory:")).router.routes
    paths = [each for each in found if isinstance(each, Path)]
    return {f"{method} {typed(each.path)}" for each in paths for method in (each.methods or {"POST"}) - {"HEAD"}}


def test_each_verb_stands_once_in_the_table():
    assert [name for name, times in Counter(verb.name for verb in VERBS).items() if times > 1] == []


def test_every_verb_of_the_application_is_in_the_table():
    there, known = {verb.name for verb in VERBS}, set(verbs_of_the_application())
    assert known - there == set(), f"say in {TABLE} which doors offer these, or why none does"
    assert there - known == set(), f"{TABLE} names verbs that are gone"


def test_every_route_is_named_by_a_verb_and_every_one_named_is_there():
    routes = {each if each in OUTSIDE else each.replace(" /", f" {API}/", 1) for each in named("route")}
    assert {*map(typed, routes), *map(typed, named("page")), *OF_THE_SERVER} == served()


def test_every_route_of_the_document_is_named_by_a_verb():
    assert {f"{route.method} {route.path}" for route in ROUTES} | OUTSIDE | {f"POST {INGEST}"} == named("route")


def test_every_command_is_named_by_a_verb_and_every_one_named_is_there():
    known = dict(commands(main))
    options = {f"{name} {flag}" for name, each in known.items() for param in each.params for flag in param.opts}
    assert {name for name in named("command") if " --" in name} <= options
    without = {name.partition(" --")[0] for name in named("command")}
    assert without | set(OF_THE_SHELL) == set(known)
    assert without & set(OF_THE_SHELL) == set()


def test_every_page_and_form_is_named_by_a_verb_and_every_one_named_is_there():
    pages = {f"GET {typed(each.path)}" for each in PAGES}
    forms = {f"POST {typed(each.path)}" for each in ACTIONS} | {"POST /jobs/many"}
    assert pages | forms == named("page")


def test_every_form_does_what_the_route_of_its_verb_does():
    """A form is a second door to the same verb, and never to another."""
    routes = {typed(f"POST {each.path}"): f"{each.method} {each.route}" for each in ACTIONS}
    for verb in VERBS:
        for form in offers(verb.page):
            assert routes.get(form) in {None, *offers(verb.route)}, verb.name


def test_every_tool_is_named_by_a_verb_and_every_one_named_is_there():
    assert {tool.call.__name__ for tool in TOOLS} == named("tool")


@pytest.mark.parametrize("door", ["route", "command", "page", "tool"])
def test_every_verb_says_something_about_every_door(door):
    assert [verb.name for verb in VERBS if not getattr(verb, door)] == []


def test_the_page_about_doors_is_the_one_the_table_gives():
    written = (FilePath(__file__).parents[2] / "docs/doors.md").read_text()
    assert written == page(), "run: python -m tests.doors.doors_page > docs/doors.md"
