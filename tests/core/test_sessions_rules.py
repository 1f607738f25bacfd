"""Which ends a session is told of, and in which words."""

from __future__ import annotations

import pytest

from standfast.failure import Class, Failure, Landed
from standfast.wings.sessions.rules import End, word_message
from standfast.wings.sessions.words import Origin, kind_of

PLAIN = Origin("s", "mail", tried=True)
AGAIN = Origin("s", "mail", tried=True, repeated=True)
WAITING = Origin("s", "mail")
DEFERRED = Origin("s", "mail", deferred=True, tried=True)
PROMISED = Origin("s", "mail", deferred=True)


@pytest.mark.parametrize(
    ("origin", "source", "target", "more", "kind"),
    [
        (PLAIN, "running", "completed", {}, None),
        (AGAIN, "running", "completed", {}, "retry_success"),
        (AGAIN, "dead", "completed", {}, "retry_success"),
        (DEFERRED, "running", "completed", {}, "submit_done"),
        (PLAIN, "running", "dead", {}, "retry_exhausted"),
        (AGAIN, "running", "dead", {}, "retry_exhausted"),
        (WAITING, "queued", "dead", {}, "retry_exhausted"),
        (DEFERRED, "running", "dead", {}, "submit_failed"),
        (PLAIN, "running", "dead", {"replays_by_itself": True}, None),
        (DEFERRED, "running", "dead", {"replays_by_itself": True}, None),
        (PLAIN, "running", "held", {}, "retry_exhausted"),
        (DEFERRED, "running", "held", {}, "submit_failed"),
        (AGAIN, "dead", "held", {}, None),
        (AGAIN, "held", "dead", {}, "retry_exhausted"),
        (WAITING, "queued", "cancelled", {}, None),
        (PLAIN, "queued", "cancelled", {}, "retry_exhausted"),
        (PROMISED, "queued", "cancelled", {}, "submit_failed"),
        (DEFERRED, "running", "cancelled", {"superseded": True}, None),
        (AGAIN, "running", "queued", {}, None),
    ],
)
def test_which_end_is_worth_a_message(origin, source, target, more, kind):
    assert kind_of(origin, source, target, **more) == kind


def failure(code: str = "max_attempts", landed: Landed = Landed.NO) -> Failure:
    return Failure(cls=Class.TRANSIENT, landed=landed, reason_code=code, message="it broke", advice="Mend it.")


@pytest.mark.parametrize(
    ("end", "message", "hint"),
    [
        (
            End(kind="retry_success", state="completed", target="mail/mail", attempts=3, has_result=True),
            "mail/mail is done, after 3 attempts.",
            "fetch its result by its id",
        ),
        (
            End(kind="submit_done", state="completed", target="mail/mail", attempts=1, warning="result_not_stored"),
            "mail/mail is done, at the first attempt (result_not_stored).",
            "Nothing is left to do.",
        ),
        (
            End(kind="submit_done", state="completed", target="mail/mail", attempts=1, maybe=True),
            "mail/mail is done, after a run that was cut off and did not count.",
            "Nothing is left to do.",
        ),
        (
            End(kind="retry_success", state="completed", target="mail/mail", by="anna", attempts=1),
            "mail/mail is done, anna settled it.",
            "Nothing is left to do.",
        ),
        (
            End(kind="retry_exhausted", state="dead", target="mail/mail", attempts=2, failure=failure()),
            "mail/mail failed for good after 2 attempts: it broke.",
            "It was not done, and nothing more happens by itself. Mend it. Then call retry with its id.",
        ),
        (
            End(kind="submit_failed", state="dead", target="m/m", attempts=1, failure=failure(landed=Landed.MAYBE)),
            "m/m failed for good at its one attempt: it broke.",
            "It may have been done all the same",
        ),
        (
            End(kind="retry_exhausted", state="dead", target="m/m", failure=failure("max_age")),
            "m/m failed for good without being tried: it broke.",
            "nothing more happens by itself",
        ),
        (
            End(kind="retry_exhausted", state="held", target="m/m", failure=failure("consent_required")),
            "m/m waits for this session's consent: it broke.",
            "waits for this session's consent",
        ),
        (
            End(kind="retry_exhausted", state="held", target="m/m", failure=failure("unknown_commit_state")),
            "m/m is held: it broke.",
            "waits for a person's answer",
        ),
        (
            End(
                kind="retry_exhausted",
                state="dead",
                target="m/m",
                failure=failure(),
                answer="denied",
                by="b",
                reason="no",
            ),
            "m/m stays dead: its approval is denied by b: no. It had failed: it broke.",
            "Do not ask again without a new reason",
        ),
        (
            End(kind="retry_exhausted", state="dead", target="m/m", attempts=2, failure=failure(), answer="denied"),
            "m/m failed for good after 2 attempts: it broke.",
            "The policy did not let it go on by itself.",
        ),
        (
            End(kind="submit_failed", state="cancelled", target="m/m", by="b", reason="not wanted"),
            "m/m was cancelled by b: not wanted.",
            "It will not run.",
        ),
    ],
)
def test_a_message_says_what_is_so_and_what_to_do(end, message, hint):
    told = word_message(end)
    assert told.message == message
    assert hint in told.hint
