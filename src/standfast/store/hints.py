"""Hints: which queues have work, told after a commit. A hint only wakes: a lost one costs latency, never a job."""

from __future__ import annotations

Hint = dict[str, float]
"""Queues that have work, and after how many seconds."""

STOPS = ""
"""The name, no queue's, under which a hint says that a running job was asked to stop."""
TIMETABLE = "\u00a0"
"""The name, no queue's, under which a hint says that a schedule was added or goes on."""
