"""The one table of the site's pages: where each belongs, and what a reader who opens it wants.

Navigation and the front page's contents are made from it. A page under `docs/` that is missing here fails a test,
and so does a page here that is missing under `docs/`, unless it is `planned`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class Page(NamedTuple):
    """One page: its file under `docs/`, its title in the navigation, and the reader's intent in one phrase."""

    file: str
    title: str
    intent: str
    planned: bool = False
    """The page is being written: it appears as soon as its file exists, and until then its absence is no error."""


class Section(NamedTuple):
    """One heading of the navigation."""

    title: str
    pages: tuple[Page, ...]


SECTIONS = (
    Section(
        "Start",
        (
            Page("tutorial.md", "Tutorial", "Build and break a small application, step by step"),
            Page("faq.md", "FAQ", "Get a short answer to a common question"),
            Page("glossary.md", "Glossary", "Look up a word"),
            Page("comparison.md", "Comparison", "Compare standfast with other queues", planned=True),
        ),
    ),
    Section(
        "How to",
        (
            Page("enqueueing.md", "Enqueue jobs", "Store a job, choose its options, use my own transaction"),
            Page("effects.md", "Avoid duplicate side effects", "Create, send or pay once, even after a crash"),
            Page("failures.md", "See why a job failed", "Read tracebacks and logs, report failures to Sentry"),
            Page("dead-letters.md", "Handle dead letters", "Replay, correct or discard a job that stopped"),
            Page("redrive.md", "Replay many letters", "Put hundreds of letters back to work, with approval"),
            Page("policy.md", "Automate dead letters", "Let rules in a file replay or quarantine letters"),
            Page("limits.md", "Limit and throttle", "Bound concurrency, rates and calls to a broken receiver"),
            Page("schedules.md", "Run on a schedule", "Enqueue jobs by cron expression or interval"),
            Page("workflows.md", "Build a workflow", "Run jobs in an order, with results passed on"),
            Page("ingest.md", "Receive webhooks", "Turn GitHub and other webhooks into jobs"),
            Page("commands.md", "Run a program as a job", "Let a program do the work of a queue"),
            Page("isolation.md", "Stop a plain function", "Enforce a timeout on blocking code"),
            Page("testing.md", "Test your handlers", "Test in memory, and kill handlers at every step"),
            Page("plain-code.md", "Use plain (sync) code", "Call standfast without async", planned=True),
            Page("frameworks.md", "Use a web framework", "Use FastAPI, Django or Flask", planned=True),
            Page("fastapi.md", "Use FastAPI", "Mount standfast in a FastAPI or Starlette application", planned=True),
            Page("django.md", "Use Django", "Run Django's tasks on standfast", planned=True),
            Page("flask.md", "Use Flask", "Enqueue and run jobs in a Flask application", planned=True),
            Page("hooks.md", "Hook into workers", "Run code at start-up, shutdown and around jobs", planned=True),
            Page("scan.md", "Scan for lost work", "Find fire-and-forget code in a code base", planned=True),
            Page("importing.md", "Import an old queue", "Bring jobs from JSONL, SQLite or Redis", planned=True),
        ),
    ),
    Section(
        "Agents",
        (
            Page("agents.md", "Calls from agents", "Call a tool now or later, with one kind of reply"),
            Page("sessions.md", "Sessions and consent", "Keep an inbox per agent, and ask for consent"),
            Page("mcp.md", "MCP server", "Give an MCP client tools for your handlers"),
        ),
    ),
    Section(
        "Operate",
        (
            Page("deployment.md", "Deployment", "Run workers under systemd or in containers", planned=True),
            Page("operations.md", "Operations", "Grant rights, upgrade, back up, plan capacity"),
            Page("settings.md", "Settings", "Look up a setting and its default"),
            Page("scaling.md", "PostgreSQL and scaling", "Move from one file to many machines"),
            Page("dashboard.md", "Dashboard", "Watch and operate queues in a browser"),
            Page("alerts.md", "Alerts and metrics", "Be told when something is wrong, scrape metrics"),
            Page("notices.md", "Live notices", "Follow what happens, in order"),
            Page("tracing.md", "Tracing", "Trace jobs with OpenTelemetry"),
            Page("audit.md", "Audit chain", "Prove who decided what"),
            Page("platforms.md", "Operating systems", "Know what works on Linux, macOS and Windows"),
            Page("files.md", "The store's files", "Know what a full disk or a deleted file does"),
        ),
    ),
    Section("Migrate", ()),
    Section(
        "Reference",
        (
            Page("reference/standfast.md", "Python: Standfast", "Look up a call and its options"),
            Page("reference/handlers.md", "Python: handlers and jobs", "Look up what a handler gets and may return"),
            Page("reference/operators.md", "Python: operator calls", "Look up the calls that operators make"),
            Page("reference/errors.md", "Python: errors", "Look up an exception"),
            Page("reference/testing.md", "Python: testing", "Look up a test helper"),
            Page("reference/cli.md", "Command line", "Look up a command and its options"),
            Page("rest.md", "REST", "Call standfast over HTTP"),
            Page("doors.md", "Every verb, every interface", "Find the call, route, command or page for a verb"),
            Page("states.md", "States of a job", "See which states a job can pass through"),
        ),
    ),
    Section(
        "Explanation",
        (
            Page("guarantees.md", "Guarantees", "Know what is promised, measured and untested"),
            Page("performance.md", "Performance", "See how fast it is, and where the time goes"),
            Page("architecture.md", "Architecture", "Read the code"),
            Page("decisions.md", "Decisions", "See why something is the way it is"),
            Page("deprecation.md", "Versions and deprecation", "Know how long an interface stays"),
        ),
    ),
)
MIGRATING = "migrating"
"""The folder of migration guides: each file in it is a page of the section Migrate."""
REASONS = "reasons"
"""The folder of the pages about reason codes, generated when the site is built."""


def planned() -> Iterator[Page]:
    """Yield the pages that may still be missing."""
    return (page for section in SECTIONS for page in section.pages if page.planned)


def sections(docs: Path) -> Iterator[Section]:
    """Yield the sections with the pages that exist, in the order of the table."""
    for title, pages in SECTIONS:
        shown = migration_guides(docs) if title == "Migrate" else pages
        there = tuple(page for page in shown if (docs / page.file).is_file())
        if there:
            yield Section(title, there)


def tree(caption: str, entries: Iterable[str]) -> str:
    """Return a part of the navigation, hidden on its page."""
    return "\n".join(
        ("```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *entries, "```\n")
    )


def migration_guides(docs: Path) -> tuple[Page, ...]:
    """Return the existing migration guides, by file name."""
    files = sorted((docs / MIGRATING).glob("*.md"))
    return tuple(_guide(f"{MIGRATING}/{file.name}", _heading(file)) for file in files)


def _guide(file: str, heading: str) -> Page:
    return Page(file, heading, heading)


def _heading(file: Path) -> str:
    lines = file.read_text().splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), file.stem)
