"""A module that has a thread as soon as it is imported, as some libraries have."""

from __future__ import annotations

from tests.testing.crash_scenarios import Tickets, start_a_thread

start_a_thread()


class Threaded(Tickets):
    """Its children must not be forked."""

    jobs = 1
