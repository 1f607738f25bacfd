"""Every shape of the corpus is found where its comments say so, and nowhere else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from standfast.scan.scan_rules import RULES
from standfast.scan.scanner import scan
from tests.scan.shapes import CORPUS, SHAPES, expected


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_found_exactly_where_it_says(shape):
    result = scan([CORPUS / shape])
    found = {(Path(each.path).name, each.line, each.rule) for each in result.findings}
    assert found == expected(CORPUS / shape)
    assert result.unreadable == []


OWN_CLIENT = "status_checked_by_client.py"
"""Its client would answer for every other file that uses the same library."""


def test_the_whole_corpus_at_once_is_found_as_well():
    """Files that share names of functions and attributes do not disturb each other's lost work and hidden failures."""
    top = [each for each in scan([CORPUS], [OWN_CLIENT]).findings if each.rank.value in {"lost-work", "hidden-failure"}]
    wanted = {place for shape in SHAPES for place in expected(CORPUS / shape)}
    found = {(Path(each.path).name, each.line, each.rule) for each in top}
    assert found == {place for place in wanted if RULES[place[2]].rank.value in {"lost-work", "hidden-failure"}}


def test_the_corpus_is_large_enough_and_has_both_kinds():
    found = Counter(bool(expected(CORPUS / shape)) for shape in SHAPES)
    assert found[True] >= 40
    assert found[False] >= 15


def test_every_rule_has_a_shape():
    found = {rule for shape in SHAPES for _, _, rule in expected(CORPUS / shape)}
    assert {rule for rule in RULES if not rule.startswith("ignore-")} == found
