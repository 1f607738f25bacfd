"""Log lines on stderr: text for a person at a terminal, one JSON object per line for a program."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import msgspec

from standfast.printable import escaped
from standfast.redact import redacted_text
from standfast.spine.claimed_job import CURRENT
from standfast.telemetry import current, trace_id

Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


AUDIT = "standfast.audit"
"""Its lines are hashes, to be compared with the audit chain, and contain no personal data or secrets."""


def _redacted(text: str, logger: str = "") -> str:
    """Return a text without the secrets in it: error messages quote addresses and arguments."""
    return text if logger == AUDIT else redacted_text(text, longest=len(text))


FIELDS = ("job_id", "queue", "handler", "attempt", "worker", "reason_code", "session")
"""What a JSON line has as fields of their own, if known."""
CHATTY = ("httpcore", "httpcore2", "httpx", "httpx2", "mcp", "uvicorn")
"""Libraries that standfast uses and that log every request at INFO."""


def fields_of(record: logging.LogRecord) -> dict[str, str | int]:
    """Return what a line is about: its own fields, else those of the job whose handler wrote it."""
    job = CURRENT.get()
    known: dict[str, Any] = {} if job is None else job.log_fields
    named = {name: getattr(record, name, None) or known.get(name) for name in FIELDS}
    return {name: value for name, value in named.items() if isinstance(value, str | int)}


class TextLines(logging.Formatter):
    """Time, level, logger, message; a traceback follows on its own lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Keep a message on one line, whatever it contains."""
        return escaped(_redacted(super().formatMessage(record), record.name))

    def formatException(self, ei: Raised) -> str:  # noqa: N802 - logging's own name
        """Keep the line breaks of a traceback, and escape all other control characters."""
        return "\n".join(escaped(line) for line in _redacted(super().formatException(ei)).split("\n"))


class JsonLines(logging.Formatter):
    """The same as JSON, with the traceback as one text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _redacted(record.getMessage(), record.name),
        }
        traceparent = getattr(record, "traceparent", None) or current()
        if traceparent is not None:
            line["trace_id"] = trace_id(traceparent)
        line |= fields_of(record)
        raised = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        if raised:
            line["traceback"] = _redacted(raised)
        if record.stack_info:
            line["stack"] = _redacted(self.formatStack(record.stack_info))
        return escaped(msgspec.json.encode(line).decode(errors="replace"))


def _show_all_from(level: str) -> None:
    logging.root.setLevel(level)
    for library in map(logging.getLogger, CHATTY if level == "INFO" else ()):
        if library.level == logging.NOTSET:
            library.setLevel(logging.WARNING)


class EarlyLines(logging.Handler):
    """Keeps log lines during an application's import: only afterwards is it known whether it sets up logging itself."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self._records.append(record)

    def write(self) -> None:
        """Write the kept lines, in the same way as all later ones."""
        for record in self._records:
            if logging.getLogger(record.name).isEnabledFor(record.levelno):
                logging.getLogger(record.name).handle(record)


@contextmanager
def kept_while_importing(level: str) -> Iterator[EarlyLines]:
    """Keep lines that no handler takes yet. If the import fails, write them as Python does without handlers."""
    early, last_resort, before = EarlyLines(), logging.lastResort, logging.root.level
    ours = logging.getLevelNamesMapping()[level.upper()] - 1  # a level that no application would set
    logging.lastResort = early
    logging.root.setLevel(ours)
    imported = False
    try:
        yield early
        imported = True
    finally:
        logging.lastResort = last_resort
        if logging.root.level == ours:
            logging.root.setLevel(before)
        if not imported:
            early.write()


def start_quietly(style: str) -> None:
    """Start logging for a command that answers and ends: only who asks for a log reads the heads of the audit chain.

    The next server or worker that decides anything notes a later head, which covers the links of the command, too.
    """
    if style == "auto" and not logging.root.handlers:
        logging.getLogger(AUDIT).setLevel(logging.WARNING)
    start(style)


def start(style: str, *, as_json: bool = False, level: str | None = None) -> None:
    """Write standfast's log to stderr, unless the application has set up logging itself.

    With `level`, also log the application and its libraries from that level on: for processes that run their code.
    """
    logging.getLogger("standfast").setLevel(logging.INFO if level is None else level.upper())
    if level is not None:
        logging.getLogger(AUDIT).setLevel(logging.INFO)  # if no file has the heads, the log must
    if logging.root.handlers:
        return
    if level is not None:
        _show_all_from(level.upper())
    lines = as_json or style == "json" or (style == "auto" and not sys.stderr.isatty())
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if lines else TextLines())
    logging.root.addHandler(handler)
