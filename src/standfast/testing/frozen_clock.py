"""Clocks for tests: one that moves only when told, one that can skip ahead."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from standfast.clock import SystemClock
from standfast.rules import seconds


class FrozenClock:
    """Stands still until `advance`. `jump_wall` moves the wall clock alone, as an operator or NTP would."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._elapsed = 1000.0
        self._wall = now.timestamp()
        self._boots = 1
        self._server = self._wall

    def elapsed(self) -> float:
        """Return the seconds since the simulated boot."""
        return self._elapsed

    def wall(self) -> float:
        """Return the seconds since 1970."""
        return self._wall

    def boot(self) -> str:
        """Identify the simulated boot."""
        return f"boot-{self._boots}"

    def of_server(self, server_time: float) -> float:  # noqa: ARG002 - that is the point
        """Simulate a server whose clock also moves only when told."""
        return self._server

    def advance(self, span: float | str) -> None:
        """Let time pass: seconds, or text such as `"5m"`."""
        passed = seconds(span) or 0.0
        self._elapsed += passed
        self._wall += passed
        self._server += passed

    def jump_wall(self, span: float) -> None:
        """Move only the wall clock, forward or back."""
        self._wall += span

    def reboot(self) -> None:
        """Start a new boot: the time since boot starts at zero."""
        self._boots += 1
        self._elapsed = 0.0


class LapsingClock(SystemClock):
    """The machine's clocks plus skipped time; a file passes that on to the process after a crash."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._passed = float(path.read_text()) if path.exists() else 0.0

    def elapsed(self) -> float:
        """Return the seconds since boot, plus skipped time."""
        return super().elapsed() + self._passed

    def wall(self) -> float:
        """Return the seconds since 1970, plus skipped time."""
        return super().wall() + self._passed

    def of_server(self, server_time: float) -> float:
        """Add the skipped time to the server's time."""
        return server_time + self._passed

    def advance(self, seconds: float) -> None:
        """Skip ahead. The file is replaced as a whole, so that a kill cannot leave half of it."""
        beside = self._path.with_suffix(".new")
        beside.write_text(repr(self._passed + seconds))
        beside.replace(self._path)
        self._passed += seconds
