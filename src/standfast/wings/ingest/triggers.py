"""What in GitHub's events asks for work: the table from an event to its trigger, and what is known of the event.

Events come as GitHub sends them; a value that is missing or of another type counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from standfast.wings.ingest.arrival import text
from standfast.wings.ingest.mentions import mentions

FAILED = frozenset({"failure", "timed_out", "startup_failure"})
"""The conclusions of a failed workflow or check; one that was cancelled, skipped or is stale has not failed."""
FAILED_STATUS = frozenset({"failure", "error"})
BY_PULL_REQUEST = frozenset({"pull_request", "pull_request_target"})
WRITTEN = frozenset({"created", "opened", "edited", "submitted"})
"""The actions that write a body; other events only send an old body along."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An event that asks for work."""

    trigger: str
    title: str | None = None
    url: str | None = None
    number: int | None = None
    about: str | None = None
    """The branch or commit that the event is about, if it has no number."""
    own_counts: bool = False
    """Whether it counts even if the configured login itself caused it."""


class Event(msgspec.Struct, frozen=True):
    """An event as it came."""

    name: str
    body: dict[str, Any]
    logins: tuple[str, ...]

    @property
    def action(self) -> str:
        """What was done."""
        return text(self.body.get("action"), 100) or ""

    def part(self, *names: str) -> dict[str, Any]:
        """Return an object inside the event, or an empty one."""
        found: Any = self.body
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def mentioned(self, part: dict[str, Any]) -> bool:
        """Return whether the text just written mentions a configured login, and did not before it was edited."""
        before = self.part("changes", "body").get("from")
        if self.action not in WRITTEN or (self.action == "edited" and before is None):
            return False
        return mentions(part.get("body"), self.logins) and not mentions(before, self.logins)


def found_in(event: Event) -> Found | str:
    """Return what an event asks for, or why it asks for nothing."""
    read = EVENTS.get(event.name)
    return f"event {event.name!r} asks for nothing" if read is None else read(event)


# --- continuous integration


def _of_ended_run(event: Event, run: dict[str, Any], branch: object, *, title: object, url: object) -> Found | str:
    """Judge a workflow or check that has ended."""
    if event.action != "completed":
        return f"{event.name} {event.action} is no end"
    conclusion = text(run.get("conclusion"), 50)
    if conclusion not in FAILED:
        return f"{event.name} ended as {conclusion or 'nothing'}, which is no failure"
    default = text(event.part("repository").get("default_branch"))
    on_default = branch == default and default is not None and not _from_fork(event, run)
    number = None if on_default else _pull_request(event, run)
    return Found(
        trigger="ci_failure_master" if on_default else "ci_failure_pr",
        title=text(title),
        url=text(url, 2000),
        number=number,
        about=_place(event, run, branch),
        own_counts=True,
    )


def _from_fork(event: Event, run: dict[str, Any]) -> bool:
    """Return whether a run is of a pull request, or of a branch with the same name in another repository."""
    return text(run.get("event")) in BY_PULL_REQUEST or _fork(event, run) is not None


def _fork(event: Event, run: dict[str, Any]) -> str | None:
    """Name the repository of a run's branch, if it is another repository."""
    head = run.get("head_repository")
    home = text(head.get("full_name"), 150) if isinstance(head, dict) else None
    return None if home == event.part("repository").get("full_name") else home


def _place(event: Event, run: dict[str, Any], branch: object) -> str | None:
    """Name a run's branch, or its commit. Only the default branch itself gets the name of the default branch.

    Otherwise a fork could pass for a broken default branch, and share its thread.
    """
    name, commit, fork = text(branch, 150), text(run.get("head_sha"), 64), _fork(event, run)
    if name is None:
        return commit
    if fork is not None:
        return f"{fork}:{name}"
    mistaken = name == event.part("repository").get("default_branch") and text(run.get("event")) in BY_PULL_REQUEST
    return commit if mistaken else name


def _pull_request(event: Event, run: dict[str, Any]) -> int | None:
    """Return the number of the pull request that a run belongs to; a fork's own pull requests do not count."""
    listed = run.get("pull_requests")
    own = event.part("repository").get("id")
    for each in listed if isinstance(listed, list) else ():
        base = Event(event.name, each if isinstance(each, dict) else {}, ()).part("base", "repo").get("id")
        if isinstance(each, dict) and (base is None or base == own) and _number(each) is not None:
            return _number(each)
    return None


def _workflow_run(event: Event) -> Found | str:
    run = event.part("workflow_run")
    return _of_ended_run(
        event, run, run.get("head_branch"), title=run.get("display_title") or run.get("name"), url=run.get("html_url")
    )


def _check_run(event: Event) -> Found | str:
    run = event.part("check_run")
    suite = event.part("check_run", "check_suite")
    return _of_ended_run(event, run, suite.get("head_branch"), title=run.get("name"), url=run.get("html_url"))


def _check_suite(event: Event) -> Found | str:
    suite = event.part("check_suite")
    title = event.part("check_suite", "app").get("name")
    home, commit = text(event.part("repository").get("html_url")), text(suite.get("head_sha"), 64)
    url = f"{home}/commit/{commit}" if home and commit else None
    return _of_ended_run(event, suite, suite.get("head_branch"), title=title, url=url)


def _status(event: Event) -> Found | str:
    state = text(event.body.get("state"), 50)
    if state not in FAILED_STATUS:
        return f"status is {state or 'nothing'}, which is no failure"
    branches = event.body.get("branches")
    names = [each.get("name") for each in branches if isinstance(each, dict)] if isinstance(branches, list) else []
    default = text(event.part("repository").get("default_branch"))
    on_default = default is not None and default in names
    described = [text(event.body.get(name), 500) for name in ("context", "description")]
    return Found(
        trigger="ci_failure_master" if on_default else "ci_failure_pr",
        title=": ".join(filter(None, described)) or None,
        url=text(event.body.get("target_url") or event.part("commit").get("html_url"), 2000),
        about=text(default if on_default else next(iter(names), event.body.get("sha")), 250),
        own_counts=True,
    )


# --- people


def _subject(part: dict[str, Any], trigger: str, of: dict[str, Any] | None = None) -> Found:
    """Describe a pull request, an issue or a discussion, with the part of it that the event is about."""
    whole = part if of is None else of
    return Found(
        trigger=trigger,
        title=text(whole.get("title")),
        url=text(part.get("html_url") or whole.get("html_url"), 2000),
        number=_number(whole),
        about=None if _number(whole) else text(part.get("commit_id"), 64),
    )


def _opened(name: str) -> Callable[[Event], Found | str]:
    """Read the events of pull requests or issues themselves."""

    def read(event: Event) -> Found | str:
        part = event.part(name)
        if event.action in {"assigned", "review_requested"}:
            return _subject(part, "assign")
        return _subject(part, "mention" if event.mentioned(part) else "pr_update_general")

    return read


def _review(event: Event) -> Found | str:
    review, of = event.part("review"), event.part("pull_request")
    if event.action == "submitted" and review.get("state") == "approved":
        return _subject(review, "pr_update_approved", of)
    return _subject(review, "mention" if event.mentioned(review) else "pr_update_review", of)


def _comment(parents: Sequence[str], otherwise: str | None) -> Callable[[Event], Found | str]:
    """Read the events of comments on something: a mention, or the other trigger of such comments."""

    def read(event: Event) -> Found | str:
        comment = event.part("comment")
        of = next((event.part(name) for name in parents if event.part(name)), {})
        trigger = "mention" if event.mentioned(comment) else otherwise
        if trigger is None:
            return f"{event.name} {event.action} mentions no configured login"
        return _subject(comment, trigger, of)

    return read


def _discussion(event: Event) -> Found | str:
    part = event.part("discussion")
    if not event.mentioned(part):
        return f"{event.name} {event.action} mentions no configured login"
    return _subject(part, "mention")


def _thread(event: Event) -> Found | str:
    return _subject(event.part("pull_request"), "pr_update_general")


def _number(part: dict[str, Any]) -> int | None:
    number = part.get("number")
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 1 << 53 else None


EVENTS: dict[str, Callable[[Event], Found | str]] = {
    "workflow_run": _workflow_run,
    "check_run": _check_run,
    "check_suite": _check_suite,
    "status": _status,
    "pull_request": _opened("pull_request"),
    "issues": _opened("issue"),
    "pull_request_review": _review,
    "pull_request_review_comment": _comment(("pull_request",), "pr_update_review"),
    "pull_request_review_thread": _thread,
    "issue_comment": _comment(("issue",), "pr_update_general"),
    "commit_comment": _comment((), None),
    "discussion": _discussion,
    "discussion_comment": _comment(("discussion",), None),
}
"""The events that may ask for work; all others ask for nothing."""
