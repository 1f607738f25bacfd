"""The time on the server: asked for now and then, and computed in between.

All connections of a process share it, so that none of them writes an earlier time than another has just written.
"""

from __future__ import annotations

from standfast.clock import Clock

NEVER = float("-inf")
SAME_TIME = 0.001
"""Seconds by which the delay of a message may seem to move the server's clock."""
TIME_KEPT = 1.0
"""Seconds for which the server need not be asked again for its time, nor whether it is still there."""
TIME_OFF = 1.0
"""Seconds by which the server's time may differ from the computed time: a message may have been delayed for long."""


class ServerTime:
    """The server's clock as this process knows it. This machine's clock only measures the time passed since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = 0.0
        self._answer = (0.0, NEVER)
        """The server's last answer, and when it came; replaced as one value, because several threads read it."""

    def now(self) -> float:
        """Return the present queue time."""
        return self._clock.elapsed() + self._offset

    def set(self, server_time: float) -> None:
        """Take over the time that the server has just returned."""
        came = self._clock.elapsed()
        self._answer = (server_time, came)
        offset = self._clock.of_server(server_time) - came
        if abs(offset - self._offset) > SAME_TIME:
            self._offset = offset

    def forget(self) -> None:
        """Ask the server again next time, because it may be a different one."""
        self._answer = (0.0, NEVER)

    def expected(self) -> float | None:
        """Return what the server's time should be now; None if the server must be asked."""
        given, came = self._answer
        passed = self._clock.elapsed() - came
        known = 0 <= passed < TIME_KEPT and abs(self._clock.of_server(given + passed) - self.now()) < TIME_OFF
        return given + passed if known else None
