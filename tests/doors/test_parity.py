"""The table of verbs and the doors: whatever a door has is a verb of the table, and what the table names is there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path as FilePath

import click
import pytest
from starlette.routing import Route as Path

import standfast
from standfast import Standfast
from standfast.cli.main import main
from standfast.dashboard.sitemap import ACTIONS, PAGES
from standfast.doors.verbs import OF_THE_SHELL, VERBS, offers
from standfast.mcp.agent_server import TOOLS
from standfast.server.api_routes import ROUTES
from standfast.server.app import API, Server
from standfast.server.openapi import document
from standfast.spine.registry import Handler
from standfast.wings.effects.handler_job import Job
from standfast.wings.redrives.verbs import Redrive
from standfast.wings.relay.outbox import Outbox
from standfast.wings.workflows.verbs import Workflow
from standfast.worker.worker import Worker
from tests.doors.doors_page import page

TABLE = "src/standfast/doors/verbs.py"
PACKAGE = FilePath(standfast.__file__).parent
EXPRESSION = "\0"
RETURNED = {
    "redrive": Redrive,
    "workflow": Workflow,
    "handler": Handler,
    "outbox": Outbox,
    "worker": Worker,
    "job": Job,
}
"""What verbs return, or handlers are given, that has verbs of its own."""
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


def check_same(named_there: set[str], offered: set[str], what: str) -> None:
    """Compare what the table names with what a door has, and say what to write where they differ."""
    missing, gone = sorted(offered - named_there), sorted(named_there - offered)
    assert not missing, (
        f"{missing}: {TABLE} names no verb for these {what}: add a row, or add them to the row of their verb"
    )
    assert not gone, f"{gone}: {TABLE} names {what} that are not there: build them, or say in their row why not"


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
    check_same({verb.name for verb in VERBS}, set(verbs_of_the_application()), "Python verbs")


def test_every_route_is_named_by_a_verb_and_every_one_named_is_there():
    routes = {each if each in OUTSIDE else each.replace(" /", f" {API}/", 1) for each in named("route")}
    check_same({*map(typed, routes), *map(typed, named("page")), *OF_THE_SERVER}, served(), "addresses of the server")


def test_every_route_of_the_document_is_named_by_a_verb():
    drawn = document(ROUTES)["paths"]
    paths = {f"{method.upper()} {path.removeprefix(API)}" for path, methods in drawn.items() for method in methods}
    check_same(named("route") - OUTSIDE, paths, "routes of the API's document")


def test_every_command_is_named_by_a_verb_and_every_one_named_is_there():
    known = dict(commands(main))
    options = {f"{name} {flag}" for name, each in known.items() for param in each.params for flag in param.opts}
    check_same({name for name in named("command") if " --" in name} | options, options, "options of commands")
    without = {name.partition(" --")[0] for name in named("command")}
    check_same(without | set(OF_THE_SHELL), set(known), "commands")
    assert without & set(OF_THE_SHELL) == set()


def test_every_page_and_form_is_named_by_a_verb_and_every_one_named_is_there():
    pages = {f"GET {typed(each.path)}" for each in PAGES}
    forms = {f"POST {typed(each.path)}" for each in ACTIONS} | {"POST /jobs/many"}
    check_same(named("page"), pages | forms, "pages and forms of the dashboard")


def test_every_form_does_what_the_route_of_its_verb_does():
    """A form is a second door to the same verb, and never to another."""
    routes = {typed(f"POST {each.path}"): f"{each.method} {each.route}" for each in ACTIONS}
    for verb in VERBS:
        for form in offers(verb.page):
            assert routes.get(form) in {None, *offers(verb.route)}, verb.name


def test_every_tool_is_named_by_a_verb_and_every_one_named_is_there():
    check_same(named("tool"), {tool.call.__name__ for tool in TOOLS}, "MCP tools")


def test_a_verb_without_a_row_and_a_row_without_a_verb_are_named():
    """The check itself tells the truth."""
    with pytest.raises(AssertionError, match="names no verb for these commands: add a row"):
        check_same({"status"}, {"status", "fly"}, "commands")
    with pytest.raises(AssertionError, match="names commands that are not there"):
        check_same({"status", "fly"}, {"status"}, "commands")


def test_every_form_in_a_template_leads_to_a_page_or_an_action():
    """What is written into the templates, and not only what the site serves."""
    known = {address.partition(" ")[2] for address in {*named("page"), *OF_THE_SERVER}}
    written = {found for file in PACKAGE.rglob("*.html") for found in forms_of(file.read_text())}
    assert len(written) > 15
    lost = [each for each in sorted(written) if not any(re.fullmatch(each, path) for path in known)]
    assert lost == [], f"these forms lead nowhere that {TABLE} names"


def forms_of(template: str) -> Iterator[str]:
    """Give where the forms of a template lead, as patterns: an expression stands for a part of a path."""
    plain = re.sub(r"\{\{.*?\}\}", EXPRESSION, template)
    for found in re.findall(r'action="([^"]*)"', plain):
        parts = found.removeprefix(EXPRESSION).partition("?")[0].split(EXPRESSION)
        if any(parts):  # else the whole address is an expression
            yield "[^/]+".join(map(re.escape, parts))


@pytest.mark.parametrize("door", ["route", "command", "page", "tool"])
def test_every_verb_says_something_about_every_door(door):
    assert [verb.name for verb in VERBS if not getattr(verb, door)] == []


def test_the_page_about_doors_is_the_one_the_table_gives():
    written = (FilePath(__file__).parents[2] / "docs/doors.md").read_text()
    assert written == page(), "run: python -m tests.doors.doors_page > docs/doors.md"
