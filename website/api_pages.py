"""The reference of the Python interface, generated from signatures and docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import standfast
from standfast import errors, testing
from standfast.wings.alerts.verbs import Alerts
from standfast.wings.approvals.verbs import Approvals
from standfast.wings.audit.verbs import Audit
from standfast.wings.consent.verbs import Consent
from standfast.wings.jobs.verbs import Queues
from standfast.wings.letters.verbs import DeadLetters
from standfast.wings.policy.verbs import Policies
from standfast.wings.redrives.verbs import Redrive
from standfast.wings.schedules.verbs import Schedules
from standfast.wings.sessions.verbs import Inbox
from standfast.wings.tokens.verbs import Tokens
from standfast.wings.workflows.verbs import Workflow, Workflows
from website.api_entries import entry

if TYPE_CHECKING:
    from collections.abc import Iterator


class ApiPage(NamedTuple):
    """One page: its file, title and introduction, and each object it describes by the name that callers use."""

    file: str
    title: str
    head: str
    things: dict[str, object]


def _public(*names: str) -> dict[str, object]:
    return {name: getattr(standfast, name) for name in names}


PAGES = (
    ApiPage(
        "reference/standfast.md",
        "Standfast",
        "`Standfast` is the object that your application holds. It declares queues and handlers, accepts jobs, answers "
        "questions about them, and runs workers. The calls that operators make are grouped by noun: `sf.dead_letters`, "
        "`sf.queues`, and so on ([operator calls](operators.md)).",
        _public(
            *("Standfast", "default", "QueueRules", "exponential", "fixed", "adaptive", "no_backoff"),
            *("EnqueueOptions", "LetterFilter", "QueueOptions", "Receipt", "Reply", "JobView"),
        ),
    ),
    ApiPage(
        "reference/handlers.md",
        "Handlers and jobs",
        "What `@sf.handler(…)` gives your function, and what the function may return. Any JSON value completes the "
        "job; `Snooze` and `Cancel` mean something else. What a handler may raise is under [errors](errors.md).",
        _public(
            "Handler",
            "Job",
            "current_session",
            "Snooze",
            "Cancel",
            "Effect",
            "EffectToVerify",
            "FileEffect",
            "HttpEffect",
            "Found",
        ),
    ),
    ApiPage(
        "reference/operators.md",
        "Operator calls",
        "The calls behind `sf.dead_letters`, `sf.queues` and their like. Every call that changes something takes `by=` "
        "(who decides), and most take `reason=`; both are written to the [audit chain](../audit.md).",
        {
            "sf.dead_letters": DeadLetters,
            "sf.queues": Queues,
            "sf.approvals": Approvals,
            "await sf.dead_letters.redrive(…)": Redrive,
            "sf.schedules": Schedules,
            "sf.workflow(name)": Workflow,
            "sf.workflows": Workflows,
            "sf.inbox": Inbox,
            "sf.consent": Consent,
            "sf.alerts": Alerts,
            "sf.policy": Policies,
            "sf.audit": Audit,
            "sf.tokens": Tokens,
        },
    ),
    ApiPage(
        "reference/errors.md",
        "Errors",
        "Every error that standfast raises on purpose is a `StandfastError`. A handler raises `Transient`, `Permanent` "
        f"or `Uncertain` to say how it failed; the others are raised to callers.\n\n```text\n{errors.__doc__}\n```",
        {
            name: each
            for name, each in vars(errors).items()
            if isinstance(each, type) and issubclass(each, errors.StandfastError)
        },
    ),
    ApiPage(
        "reference/testing.md",
        "standfast.testing",
        "Helpers for your own tests. [Test your handlers](../testing.md) shows how to use them together.",
        {name: getattr(testing, name) for name in sorted(testing.__all__, key=str.casefold)},
    ),
)


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page as its file and its text."""
    for page in PAGES:
        entries = (entry(name, thing) for name, thing in page.things.items())
        yield page.file, "\n\n".join((f"# {page.title}", page.head, *entries, ""))
