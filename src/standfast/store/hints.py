"""Hints: which queues have work, sent after a commit. A hint only wakes: losing one costs latency, never a job."""

from __future__ import annotations

Hint = dict[str, float]
"""Queues that have work, and after how many seconds."""

STOPS = ""
"""In place of a queue's name: a running job was asked to stop."""
TIMETABLE = "\u00a0"
"""In place of a queue's name: a schedule was added or resumed."""
