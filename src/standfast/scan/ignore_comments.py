"""`# standfast: ignore[rule] reason`: accepted findings, marked at the end of the line or above it."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

from standfast.scan.code_finding import Finding
from standfast.scan.parsed_module import ParsedModule
from standfast.scan.scan_rules import BAD_IGNORE, RULES, UNUSED_IGNORE, Rule

MARK = "standfast: ignore"
COMMENT = re.compile(r"#\s*standfast:\s*ignore(?:\[(?P<rules>[^\]]*)\])?(?P<reason>.*?)(?=\s#\s*[A-Za-z]|$)")
"""It may follow another comment, and another may follow it: `# noqa: RUF006  # standfast: ignore[…] …`."""
WORD = re.compile(r"\w{2,}")


class Ignore(NamedTuple):
    """One comment."""

    line: int
    column: int
    covers: int
    """The line that it applies to: its own, or if it stands alone, the next one with code."""
    rules: frozenset[str]
    reason: str
    code: str

    @property
    def problem(self) -> str | None:
        """Return why the comment does not count; None if it does."""
        if not self.rules:
            return "The ignore comment names no rule: # standfast: ignore[rule] reason"
        unknown = sorted(self.rules - RULES.keys())
        if unknown:
            return f"There is no rule {', '.join(unknown)}; `standfast scan --rules` lists them."
        return None if WORD.search(self.reason) else "The ignore comment gives no reason: say why this is safe."


def apply(module: ParsedModule, findings: list[Finding]) -> tuple[list[Finding], int]:
    """Remove findings that comments cover, add problems with the comments, and count what was removed."""
    if MARK not in module.source:
        return findings, 0
    ignores = list(_comments(module))
    used: set[Ignore] = set()
    kept = []
    for finding in findings:
        answer = next((each for each in ignores if _answers(each, finding)), None)
        if answer is None:
            kept.append(finding)
        else:
            used.add(answer)
    kept += [_about(module, each, BAD_IGNORE, each.problem) for each in ignores if each.problem]
    kept += [_about(module, each, UNUSED_IGNORE) for each in ignores if not each.problem and each not in used]
    return kept, len(findings) - len([each for each in kept if each in findings])


def _answers(ignore: Ignore, finding: Finding) -> bool:
    is_there = finding.line <= ignore.covers <= finding.last_line
    return is_there and finding.rule in ignore.rules and ignore.problem is None


def _comments(module: ParsedModule) -> Iterator[Ignore]:
    for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
        for found in COMMENT.finditer(token.string) if token.type == tokenize.COMMENT else ():
            rules = frozenset(name.strip() for name in (found["rules"] or "").split(",") if name.strip())
            line, column = token.start
            yield Ignore(line, column + found.start() + 1, _covered(module, token), rules, found["reason"], found[0])


def _covered(module: ParsedModule, token: tokenize.TokenInfo) -> int:
    line = token.start[0]
    if token.line[: token.start[1]].strip():
        return line
    rest = range(line + 1, len(module.lines) + 1)
    return next((number for number in rest if _has_code(module.lines[number - 1])), line)


def _has_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _about(module: ParsedModule, ignore: Ignore, rule: Rule, lost: str | None = None) -> Finding:
    return Finding(
        rule=rule.id,
        rank=rule.rank,
        path=module.shown,
        line=ignore.line,
        column=ignore.column,
        lost=lost or rule.lost,
        instead=rule.instead,
        code=ignore.code,
        scope="",
        last_line=ignore.line,
        last_column=ignore.column,
    )
