"""The page of dead letters: by cause, and one by one."""

from __future__ import annotations

from functools import partial
from typing import Any

from standfast.dashboard.actions import Action, ReturnTo
from standfast.dashboard.page import UNUSABLE, Page, RenderedPage, Visit
from standfast.doors.filters import fields_of, names_of
from standfast.errors import ConfigurationError, WrongAddress
from standfast.server.auth import check_queue
from standfast.server.token_view import job_for, values_for
from standfast.wings.records.letter_filter import as_filter
from standfast.wings.records.letter_query import WantedLetters
from standfast.wings.records.letter_reach import check_sought

FIELDS = fields_of(WantedLetters)

PAGE = 50
MOST_GROUPS = 50


async def list_page(visit: Visit) -> RenderedPage:
    """Show letters by cause, and the newest of them."""
    try:
        return await _listed(visit, visit.filters(WantedLetters))
    except WrongAddress:
        raise
    except ConfigurationError as error:
        asked = visit.typed(*names_of(WantedLetters))
        nothing: dict[str, Any] = {
            "letters": [],
            "next_cursor": None,
            "groups": [],
            "left_out": 0,
            "total": 0,
            "age": 0.0,
        }
        words = {"asked": asked, "fields": FIELDS, "scoped": False, "wrong": error.outside}
        return RenderedPage("letters.html", {**nothing, **words}, UNUSABLE)


async def _listed(visit: Visit, chosen: dict[str, str]) -> RenderedPage:
    if "queue" in chosen:
        check_queue(visit.grant, chosen["queue"])
    check_sought(visit.grant, chosen)
    page = await visit.sf.dead_letters.list(
        as_filter(chosen), limit=PAGE, cursor=visit.cursor(), queues=visit.grant.queues
    )
    key = ("groups", *sorted(chosen.items()))
    cached = await visit.cache.get_soon(key, partial(visit.sf.dead_letters.groups, as_filter(chosen)))
    age, groups = (None, []) if cached is None else (cached.age, cached.value)
    reached = [group for group in groups if visit.grant.reaches(group["queue"])]
    context = {
        "letters": [job_for(letter, visit.grant) for letter in page],
        "next_cursor": page.next_cursor,
        "groups": values_for(reached[:MOST_GROUPS], visit.grant),
        "left_out": max(0, len(reached) - MOST_GROUPS),
        "total": sum(group["count"] for group in reached),
        "age": age,
        "asked": chosen,
        "wrong": None,
        "fields": FIELDS,
        "scoped": visit.grant.queues is not None and "queue" not in chosen,
    }
    return RenderedPage("letters.html", context)


def _action(verb: str, says: str) -> Action:
    path = f"/dead-letters/{{id}}/{verb}"
    return Action(path, "POST", path, ReturnTo("/jobs/{id}", verb, says))


PAGES = (Page("/dead-letters", list_page),)
ACTIONS = (
    _action("replay", "Done: the letter went back to work, or was found to have landed. The timeline says which."),
    _action("amend", "The payload was changed. Nothing runs by itself: replay it when you are ready."),
    _action("resolve", "The letter is resolved."),
    _action("discard", "The letter is discarded."),
    _action("quarantine", "The letter is set apart for its owner."),
)
