"""Log lines on stderr: text for a person at a terminal, one JSON object a line for a program."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from types import TracebackType

import msgspec

from standfast.printable import escaped
from standfast.redact import redacted_text
from standfast.telemetry import current, trace_id

Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


AUDIT = "standfast.audit"
"""Its lines are hashes, to be compared with the chain, and hold nothing of anybody's."""


def _redacted(text: str, logger: str = "") -> str:
    """Give a text without the secrets in it: what raises quotes addresses and arguments."""
    return text if logger == AUDIT else redacted_text(text, longest=len(text))


class TextLines(logging.Formatter):
    """Time, level, logger, message; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Keep a message on its line, whatever is in it."""
        return escaped(_redacted(super().formatMessage(record), record.name))

    def formatException(self, ei: Raised) -> str:  # noqa: N802 - logging's own name
        """Keep a traceback's lines, and nothing else that acts."""
        return "\n".join(escaped(line) for line in _redacted(super().formatException(ei)).split("\n"))


class JsonLines(logging.Formatter):
    """The same as JSON, with the traceback as one text."""

    def format(self, record: logging.LogRecord) -> str:
        """Give one line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _redacted(record.getMessage(), record.name),
        }
        traceparent = getattr(record, "traceparent", None) or current()
        if traceparent is not None:
            line["trace_id"] = trace_id(traceparent)
        if record.exc_info:
            line["error"] = _redacted(self.formatException(record.exc_info))
        return escaped(msgspec.json.encode(line).decode(errors="replace"))


def start_quietly(style: str, *, heads_in_file: bool) -> None:
    """Do so for a command that answers and ends: a person who asked for no log need not read the audit chain's heads.

    Where they stand in no file, a program's log is the only place that has them.
    """
    if style == "auto" and (heads_in_file or sys.stderr.isatty()) and not logging.root.handlers:
        logging.getLogger(AUDIT).setLevel(logging.WARNING)
    start(style)


def start(style: str, *, as_json: bool = False) -> None:
    """Write what standfast logs to stderr, unless the application has set up logging itself."""
    logging.getLogger("standfast").setLevel(logging.INFO)
    if logging.root.handlers:
        return
    lines = as_json or style == "json" or (style == "auto" and not sys.stderr.isatty())
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if lines else TextLines())
    logging.root.addHandler(handler)
