"""What time it is on the server: asked for now and then, and reckoned between.

All connections of a process share it, so that what one of them writes is never earlier than what the other just wrote.
"""

from __future__ import annotations

from standfast.clock import Clock

NEVER = float("-inf")
SAME_TIME = 0.001
"""Seconds that a message's way may seem to move the server's clock."""
TIME_KEPT = 1.0
"""Seconds for which the server need not be asked for its time again, nor whether it is still there."""
TIME_OFF = 1.0
"""Seconds by which it may be another time there than was reckoned: the message may have been on its way for long."""


class ServerTime:
    """The server's clock as this process knows it. The machine's own only says how much has passed since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = 0.0
        self._answer = (0.0, NEVER)
        """What time the server gave last, and when: replaced as one, because several threads read it."""

    def now(self) -> float:
        """Give the present queue time."""
        return self._clock.elapsed() + self._offset

    def set(self, server_time: float) -> None:
        """Take the time that the server has just given."""
        came = self._clock.elapsed()
        self._answer = (server_time, came)
        offset = self._clock.of_server(server_time) - came
        if abs(offset - self._offset) > SAME_TIME:
            self._offset = offset

    def forget(self) -> None:
        """Have the server asked next time: it may be another one."""
        self._answer = (0.0, NEVER)

    def expected(self) -> float | None:
        """Give the time that it should be on the server; None where that must be asked for."""
        given, came = self._answer
        passed = self._clock.elapsed() - came
        known = 0 <= passed < TIME_KEPT and abs(self._clock.of_server(given + passed) - self.now()) < TIME_OFF
        return given + passed if known else None
