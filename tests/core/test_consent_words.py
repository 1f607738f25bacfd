"""What grants say about one attempt."""

from __future__ import annotations

from typing import Any

import pytest

from standfast.wings.consent.words import Attempt, Grant, ruling

FIRST = Attempt("s", "pay", "charge", "job-1", first=True)
AGAIN = Attempt("s", "pay", "charge", "job-1", first=False)


def grant(id_: str = "g", mode: Any = "always", **more: Any) -> Grant:
    given: dict[str, Any] = {"queue": "pay", "handler": "charge", "granted_at": 0.0, "expires_at": 100.0, "uses": None}
    return Grant(id=id_, session="s", mode=mode, given_by="anna", reason=None, **given | more)


BLANKET = {"queue": "*", "handler": "*"}


@pytest.mark.parametrize(
    ("attempt", "grants", "spent", "verdict"),
    [
        (FIRST, [], [], ("ask", None, False)),
        (FIRST, [grant()], [], ("allowed", "g", False)),
        (AGAIN, [grant()], [], ("allowed", "g", False)),
        (FIRST, [grant(expires_at=50.0)], [], ("ask", None, False)),
        (FIRST, [grant(revoked_at=1.0)], [], ("ask", None, False)),
        (FIRST, [grant(handler="refund")], [], ("ask", None, False)),
        (FIRST, [grant(queue="other")], [], ("ask", None, False)),
        (FIRST, [grant(), grant("no", "deny")], [], ("denied", "no", False)),
        (FIRST, [grant(), grant("no", "deny", expires_at=50.0)], [], ("allowed", "g", False)),
        (FIRST, [grant("no", "deny", **BLANKET), grant()], [], ("denied", "no", False)),
        (AGAIN, [grant("no", "deny", **BLANKET), grant()], [], ("denied", "no", False)),
        (FIRST, [grant(**BLANKET)], [], ("allowed", "g", False)),
        (AGAIN, [grant(**BLANKET)], [], ("ask", None, False)),
        (FIRST, [grant(mode="once", uses=1)], [], ("allowed", "g", True)),
        (FIRST, [grant(mode="once", uses=1, used=1)], [], ("ask", None, False)),
        (AGAIN, [grant(mode="once", uses=1, used=1)], ["g"], ("allowed", "g", False)),
        (AGAIN, [grant(mode="once", uses=1, used=1, expires_at=50.0)], ["g"], ("ask", None, False)),
        (FIRST, [grant("a", "once", uses=1), grant("b", "timed")], [], ("allowed", "b", False)),
        (
            FIRST,
            [grant("late", "once", uses=1), grant("soon", "once", uses=1, expires_at=90.0)],
            [],
            ("allowed", "soon", True),
        ),
    ],
)
def test_what_the_grants_say(attempt, grants, spent, verdict):
    assert ruling(attempt, grants, spent, now=50.0) == verdict
