"""The `scan` command, which finds work that can be lost in your code."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import click
import msgspec

from standfast.cli.group import DONE, FAILED, shared
from standfast.cli.terminal import show_json
from standfast.errors import ConfigurationError
from standfast.printable import escaped
from standfast.scan import fix_plan, sarif_output, scan_baseline, text_output
from standfast.scan.code_finding import ScanResult
from standfast.scan.fix_plan import Change
from standfast.scan.scan_rules import Rank
from standfast.scan.scanner import scan as scan_tree
from standfast.scan.text_output import Line

RANKS = [rank.value for rank in Rank]


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(path_type=Path))
@click.option(
    "--rank", type=click.Choice(RANKS), default="note", show_default=True, help="Show this rank and what is worse."
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="A directory's name or a pattern to leave out.")
@click.option("--sarif", is_flag=True, help="Write SARIF 2.1.0.")
@click.option("--baseline", type=click.Path(path_type=Path), metavar="FILE", help="Show only what FILE does not have.")
@click.option("--write-baseline", is_flag=True, help="Write today's findings to the --baseline file.")
@click.option("--fix", is_flag=True, help="Show a diff that keeps tasks and logs errors; needs standfast[codemod].")
@click.option("--write", is_flag=True, help="With --fix: write the changes without asking.")
@click.option("--rules", is_flag=True, help="List the rules.")
@shared
def scan(
    *,
    paths: tuple[Path, ...],
    rank: str,
    exclude: tuple[str, ...],
    sarif: bool,
    baseline: Path | None,
    write_baseline: bool,
    fix: bool,
    write: bool,
    rules: bool,
    url: str | None,  # noqa: ARG001 - every command takes it
    as_json: bool,
) -> None:
    """Find work that can be lost: unreferenced tasks, hidden errors.

    Reads Python files and runs none of them. Exits 1 if something was found or a file could not be read, else 0.
    """
    if rules:
        _show(text_output.rules())
        return
    _check(paths, baseline, write_baseline=write_baseline, fix=fix, write=write, machine=sarif or as_json)
    result = _found(paths, exclude, rank)
    if write_baseline and baseline is not None:
        _write_baseline(baseline, result)
        return
    result = _without_known(result, baseline)
    if fix:
        result = _fix(result, paths, exclude, rank, baseline, write=write)
    _answer(result, sarif=sarif, as_json=as_json)
    raise click.exceptions.Exit(FAILED if result.findings or result.unreadable else DONE)


def _check(
    paths: tuple[Path, ...], baseline: Path | None, *, write_baseline: bool, fix: bool, write: bool, machine: bool
) -> None:
    if not paths:
        raise click.UsageError("name a file or directory to scan, such as: standfast scan src")
    if write_baseline and baseline is None:
        raise click.UsageError("--write-baseline needs --baseline FILE")
    if write and not fix:
        raise click.UsageError("--write goes with --fix")
    if fix and machine:
        raise click.UsageError("--fix shows a diff for people: leave --json and --sarif out")


def _found(paths: tuple[Path, ...], exclude: tuple[str, ...], rank: str) -> ScanResult:

    result = scan_tree(paths, exclude)
    wanted = [finding for finding in result.findings if Rank(rank).includes(finding.rank)]
    return msgspec.structs.replace(result, findings=wanted)


def _without_known(result: ScanResult, baseline: Path | None) -> ScanResult:

    if baseline is None:
        return result
    new = scan_baseline.new_since(baseline, result.findings)
    return msgspec.structs.replace(result, findings=new, known=len(result.findings) - len(new))


def _write_baseline(baseline: Path, result: ScanResult) -> None:

    try:
        scan_baseline.write(baseline, result.findings)
    except OSError as error:
        raise ConfigurationError(f"the baseline {str(baseline)!r} cannot be written: {error.strerror}") from error
    click.echo(f"{len(result.findings)} findings are in {escaped(str(baseline))}; later scans show only new ones")


def _answer(result: ScanResult, *, sarif: bool, as_json: bool) -> None:

    if sarif:
        show_json(sarif_output.log(result, version("standfast")))
    elif as_json:
        show_json(result)
    else:
        _show(text_output.report(result))


def _show(lines: Iterable[Line]) -> None:
    for line in lines:
        click.secho(escaped(line.text), fg=line.colour, bold=line.bold or None)


def _fix(
    result: ScanResult,
    paths: tuple[Path, ...],
    exclude: tuple[str, ...],
    rank: str,
    baseline: Path | None,
    *,
    write: bool,
) -> ScanResult:
    """Show the diff, write it if wanted, and return the findings that remain."""
    changes = fix_plan.plan(result.findings)
    for change in changes:
        _show_diff(change)
    if not changes:
        click.echo("there is nothing that can be rewritten safely")
        return result
    if not write and not _is_confirmed(changes):
        click.echo("nothing was written; add --write to apply the diff")
        return result
    for change in changes:
        fix_plan.write(change)
    _say_what_remains(changes)
    return _without_known(_found(paths, exclude, rank), baseline)


def _show_diff(change: Change) -> None:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in change.diff():
        click.secho(escaped(line), fg=colours.get(line[:1]))


def _is_confirmed(changes: list[Change]) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return click.confirm(f"Write {len(changes)} files?", default=False)


def _say_what_remains(changes: list[Change]) -> None:
    click.echo("Tasks are kept and errors are logged now, but the work still dies with the process. Still to do:")
    for change in changes:
        for finding in change.fixed:
            click.echo(escaped(f"  {finding.path} {finding.scope or 'module'}: {finding.code} -> {finding.instead}"))
    click.echo()
