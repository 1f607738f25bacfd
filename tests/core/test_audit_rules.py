"""The chain as values: its hashes never change their form, and whatever was done to it shows at the right place."""

from __future__ import annotations

import hashlib
import json

import pytest

from standfast.wings.audit.rules import UNBEGUN, Problem, Walk, compare, first, follow, judge
from standfast.wings.audit.words import NOTHING, Decision, Head, Link, digest, following, genesis

STORE = "5ca1ab1e"


def chain(length: int = 4, store: str = STORE) -> list[Link]:
    links = [genesis(store, 0.0)]
    for number in range(1, length):
        links.append(following(links[-1].head, float(number), [Decision(kind="replay", job=f"job-{number}", by="ann")]))
    return links


def judged(links: list[Link], noted: Head | None = None, store: str | None = STORE) -> Problem | None:
    return judge(follow(Walk(), links), store, noted or chain()[-1].head)


def rewritten(links: list[Link], place: int, **changed: object) -> list[Link]:
    """Change a link as somebody does who knows how hashes are made, and makes all those behind it anew."""
    done = links[:place]
    for link in links[place:]:
        what = link._replace(previous=done[-1].hash, **(changed if link is links[place] else {}))  # type: ignore[arg-type]
        done.append(what._replace(hash=digest(what.seq, what.at, what.entries, what.previous)))
    return done


def test_the_form_of_a_link_is_fixed():
    """Chains that were written have to verify for as long as they are kept, also by other programs."""
    [begin, link] = chain(2)
    assert begin.entries == '[{"kind":"genesis","store":"5ca1ab1e"}]'
    assert (begin.seq, begin.at, begin.previous) == (0, "1970-01-01T00:00:00.000000+00:00", NOTHING)
    assert link.entries == '[{"by":"ann","job":"job-1","kind":"replay"}]'
    lines = ["standfast audit 1", "1", "1970-01-01T00:00:01.000000+00:00", begin.hash, link.entries]
    assert link.hash == hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert link.hash == "d2c71d4331d7ae5b5086060ef90e4d9b7436165c4c8f28ec62139184f399dbb0"


def test_the_text_of_entries_does_not_depend_on_the_order_they_were_said_in():
    [one, other] = [{"b": 1, "a": {"d": "ö", "c": None}}, {"a": {"c": None, "d": "ö"}, "b": 1}]
    links = [following(Head(0, NOTHING), 0.0, [Decision(kind="purge", detail=detail)]) for detail in (one, other)]
    assert links[0] == links[1]
    assert json.loads(links[0].entries) == [{"kind": "purge", "detail": one}]


def test_a_whole_chain_has_no_problem():
    walk = follow(Walk(), chain())
    assert (walk.head, walk.entries, walk.problem) == (chain()[-1].head, 3, None)
    assert judged(chain()) is None
    assert judge(Walk(), None, UNBEGUN) is None


def test_a_chain_is_followed_in_bites():
    links = chain()
    assert follow(follow(Walk(), links[:2]), links[2:]) == follow(Walk(), links)


CHAIN = chain()
TAMPERED = [
    ([*CHAIN[:2], CHAIN[2]._replace(entries="[]"), CHAIN[3]], 2, "was changed"),
    ([*CHAIN[:2], CHAIN[2]._replace(at=CHAIN[1].at), CHAIN[3]], 2, "was changed"),
    ([*CHAIN[:2], CHAIN[2]._replace(hash=CHAIN[1].hash), CHAIN[3]], 2, "was changed"),
    ([*CHAIN[:2], CHAIN[3]], 2, "link 2 is missing"),
    ([*CHAIN[:2], CHAIN[3]._replace(seq=2)], 2, "was changed"),
    (CHAIN[1:], 0, "link 0 is missing"),
    ([], 0, "no link is left here, and the store wrote link 3"),
    (CHAIN[:3], 3, "link 2 is the last here, and the store wrote link 3"),
    ([*CHAIN[:2], CHAIN[3]._replace(seq=2), CHAIN[2]._replace(seq=3)], 2, "was changed"),
    ([*CHAIN[:3], rewritten(CHAIN, 2, entries="[]")[3]], 3, "does not follow"),
    (rewritten(CHAIN, 2, entries="[]"), 3, "not the head that the store wrote"),
    (rewritten(CHAIN, 2, entries="5"), 2, "holds no decisions"),
    (rewritten(CHAIN, 2, entries="["), 2, "holds no decisions"),
    (chain(5), 4, "not the head that the store wrote"),
    (chain(store="other"), 0, "another store's"),
]


@pytest.mark.parametrize(("links", "seq", "why"), TAMPERED)
def test_what_was_done_to_a_chain_shows_at_the_first_bad_link(links, seq, why):
    problem = judged(links)
    assert problem is not None
    assert (problem.seq, why in problem.why) == (seq, True), problem


def test_links_without_a_note_of_the_store_are_another_store_s():
    problem = judge(follow(Walk(), CHAIN), None, UNBEGUN)
    assert problem is not None
    assert problem.seq == 0


def hashes(links: list[Link]) -> dict[int, str]:
    return {link.seq: link.hash for link in links}


def heads(links: list[Link]) -> list[Head]:
    return [link.head for link in links]


@pytest.mark.parametrize(
    ("links", "anchors", "seq", "why"),
    [
        (CHAIN, heads(CHAIN), None, ""),
        (CHAIN, heads(CHAIN)[::-1], None, ""),
        (CHAIN, heads(CHAIN[:2]), None, ""),
        (CHAIN, [], None, ""),
        (CHAIN[:2], heads(CHAIN), 2, "link 1 is the last here, and link 2 was noted outside"),
        (rewritten(CHAIN, 2, entries="[]"), heads(CHAIN), 2, "another one was noted outside"),
        (chain(store="other"), heads(CHAIN), 0, "another chain"),
        (CHAIN, [*heads(CHAIN), *heads(rewritten(CHAIN, 3, entries="[]"))], 3, "another one was noted outside"),
        ([], heads(CHAIN), 0, "no link is left here, and link 0 was noted outside"),
    ],
)
def test_what_was_noted_outside_is_compared(links, anchors, seq, why):
    problem = compare(links[-1].head if links else UNBEGUN, anchors, hashes(links))
    assert (problem and problem.seq) == seq
    assert problem is None or why in problem.why, problem


def test_the_first_of_several_problems_is_told():
    assert first([None, Problem(3, "late"), Problem(1, "early"), None]) == Problem(1, "early")
    assert first([None]) is None
