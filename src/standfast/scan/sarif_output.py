"""The findings as SARIF 2.1.0, which code hosts and editors show next to the code."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from standfast.scan.code_finding import Finding, ScanResult, Unreadable
from standfast.scan.scan_rules import RULES, Rank, Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Rank.LOST_WORK: "error", Rank.HIDDEN_FAILURE: "error", Rank.AT_RISK: "warning", Rank.NOTE: "note"}
_INDEX = {name: number for number, name in enumerate(RULES)}


def log(result: ScanResult, version: str) -> dict[str, Any]:
    """Return the whole document."""
    driver = {"name": "standfast", "version": version, "rules": [_rule(rule) for rule in RULES.values()]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(result.unreadable)],
        "results": [_result(finding) for finding in result.findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.lost},
        "help": {"text": f"Instead: {rule.instead}"},
        "defaultConfiguration": {"level": LEVELS[rule.rank]},
        "properties": {"tags": [rule.rank.value]},
    }


def _result(finding: Finding) -> dict[str, Any]:
    return {
        "ruleId": finding.rule,
        "ruleIndex": _INDEX[finding.rule],
        "level": LEVELS[finding.rank],
        "message": {"text": f"{finding.lost} Instead: {finding.instead}"},
        "locations": [{"physicalLocation": _location(finding)}],
        "partialFingerprints": {"standfastFinding/v1": _fingerprint(finding)},
        "properties": {"rank": finding.rank.value},
    }


def _location(finding: Finding) -> dict[str, Any]:
    region = {"startLine": finding.line, "startColumn": finding.column, "snippet": {"text": finding.code}}
    return {"artifactLocation": {"uri": _uri(finding.path)}, "region": region}


def _uri(path: str) -> str:
    return f"file://{quote(path)}" if PurePosixPath(path).is_absolute() else quote(path)


def _fingerprint(finding: Finding) -> str:
    """Return a hash that stays the same when lines move."""
    parts = (finding.rule, finding.path, finding.scope, " ".join(finding.code.split()))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _invocation(unreadable: list[Unreadable]) -> dict[str, Any]:
    said = [_notification(each) for each in unreadable]
    return {"executionSuccessful": not said, "toolExecutionNotifications": said}


def _notification(unreadable: Unreadable) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": _uri(unreadable.path)}, "region": {"startLine": unreadable.line}}
    message = {"text": f"The file could not be read: {unreadable.problem}"}
    return {"level": "error", "message": message, "locations": [{"physicalLocation": place}]}
