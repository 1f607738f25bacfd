"""Commands about the policy: policy show, check, test, drill."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import click
import msgspec

from standfast.cli.applications import settings_for
from standfast.cli.group import DONE, FAILED, look, shared
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.errors import ConfigurationError
from standfast.wings.policy.cases import load_cases
from standfast.wings.policy.load import load_policy
from standfast.wings.policy.rehearse import CaseResult, rehearse
from standfast.wings.policy.verbs import content
from standfast.wings.records.figures import count_of, number

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def policy() -> None:
    """Show the policy for dead letters, and try another one before it takes effect."""


@policy.command("show")
@shared
def show_policy(*, url: str | None, as_json: bool) -> None:
    """Show the policy in force, who published it, and any problem with it."""
    found = look(url, lambda sf: sf.policy.show())
    if as_json:
        show_json(found)
        return
    facts = [(name, str(found[name])) for name in ("snapshot", "source", "by", "at") if found[name] is not None]
    show(Table([*facts, *([("issue", Cell(found["issue"], "bold red"))] if found["issue"] else [])]))
    for line in (found["text"] or "").splitlines():
        show_line(line)


@policy.command()
@click.argument("file", type=FILE)
@shared
def check(*, file: Path, url: str | None, as_json: bool) -> None:
    """Show what another policy would change for the stored letters. It does not take effect."""
    text = content(file)
    found = look(url, lambda sf: sf.policy.check(text, str(file)))
    if as_json:
        show_json(found)
        return
    show_line(f"{number(found['changed'])} of {count_of(found['letters'], 'letter')} would be treated differently")
    changes = [(what, each) for what in ("actions", "decisions") for each in found[what]]
    rows = [_change(what, each) for what, each in changes if each["before"] != each["after"]]
    if rows:
        show(Table(rows, ("what", "in force", "candidate", "letters", "for example")))
    for name in found["unused"]:
        show_line(f"{name} speaks of none of them", "dim")


@policy.command("test")
@click.argument("file", type=FILE)
@click.option("--policy", "written", type=FILE, help="The policy; else $STANDFAST_POLICY, ./standfast-policy.yaml.")
@shared
def test_cases(*, file: Path, written: Path | None, url: str | None, as_json: bool) -> None:
    """Test a policy with the cases in a file, and exit 1 if one gives another result."""
    path = written or Path(settings_for(url).policy.value)
    if not path.exists():
        raise ConfigurationError(f"there is no policy at {path}; name one with --policy")
    results = rehearse(load_cases(content(file), str(file)), load_policy(content(path), str(path)))
    failed = [each for each in results if not each.passed]
    if as_json:
        show_json({"cases": len(results), "failed": len(failed), "items": msgspec.to_builtins(results)})
    else:
        _show_cases(results, failed, file)
    raise click.exceptions.Exit(FAILED if failed else DONE)


@policy.command()
@shared
def drill(*, url: str | None, as_json: bool) -> None:
    """Practise a denied replay with a made-up letter in a temporary store; exit 1 if a step fails."""
    from standfast.demo.drill import drill as walk  # noqa: PLC0415 - loaded only when asked for

    logging.getLogger("standfast").setLevel(logging.CRITICAL)  # it is meant to fail
    course = asyncio.run(walk(settings_for(url).policy))
    if as_json:
        show_json({"passed": course.passed, "steps": msgspec.to_builtins(course.steps)})
    else:
        show(Table([_step(step) for step in course.steps], ("", "step", "seen")))
        show_line("the drill went well" if course.passed else "the drill FAILED", "green" if course.passed else "red")
    raise click.exceptions.Exit(DONE if course.passed else FAILED)


def _change(what: str, change: dict[str, Any]) -> list[str | Cell]:
    return [what[:-1], change["before"], Cell(change["after"], "bold"), number(change["count"]), change["samples"][0]]


def _step(step: Any) -> list[str | Cell]:
    return [Cell("ok", "green") if step.ok else Cell("FAILED", "bold red"), step.what, step.seen]


def _show_cases(results: list[CaseResult], failed: list[CaseResult], file: Path) -> None:
    for each in failed:
        for problem in each.problems:
            show_line(f"{file}, line {each.line}: {each.name}: {problem}", "red")
    show_line(
        f"{number(len(results) - len(failed))} of {count_of(len(results), 'case')} passed", "red" if failed else "green"
    )
