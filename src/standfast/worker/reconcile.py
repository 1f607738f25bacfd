"""Compares, at each heartbeat, the jobs that the store says a worker holds with those it really holds."""

from __future__ import annotations

from standfast.spine.settle import given_back
from standfast.worker.executor import Executor
from standfast.worker.upkeep import Beat


class Comparison:
    """Stops attempts that lost their lease or were cancelled; gives back claims that never arrived here."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._strangers: dict[tuple[int, int], float] = {}
        """Jobs that only the store says we hold, and how many claims must be answered before they are given back."""

    def judge(self, beat: Beat, *, answers: int, due: int) -> None:
        """Compare. So far `answers` claims are answered; `due` will be once those under way are answered.

        On PostgreSQL a claim may begin before a heartbeat and be committed after it. So a job that the store does not
        name is lost only if we held it before the heartbeat was requested.
        """
        stored = {(job.n, job.token): job for job in beat.held}
        for key, running in list(self._executor.held.items()):
            if key not in stored and running.claim.claimed_at < beat.at and running.began < beat.requested_at:
                self._executor.cut(running, "lost")
            elif key in stored and stored[key].cancelling:
                self._executor.cut(running, "cancel")
        unknown = [key for key in stored if key not in self._executor.held]
        strangers = {key: self._strangers.get(key, due) for key in unknown}
        for key in strangers.keys() & self._strangers.keys():
            if strangers[key] <= answers:  # the claim that took it was answered, and did not bring it
                job = stored[key]
                self._executor.hand_in(given_back(job.job_ref))
                strangers[key] = float("inf")
        self._strangers = strangers
