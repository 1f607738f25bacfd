"""What the store says a worker holds, beside what it has in its hands: each heartbeat brings the one to the other."""

from __future__ import annotations

from standfast.spine.settle import given_back
from standfast.worker.executor import Executor
from standfast.worker.upkeep import Beat


class Comparison:
    """Stops attempts that lost their lease or are not wanted any more; gives back claims that never arrived here."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._strangers: dict[tuple[int, int], float] = {}
        """Jobs the store gave us and we do not know, with the number of answered claims that must have brought them."""

    def judge(self, beat: Beat, *, answers: int, due: int) -> None:
        """Compare. Of the claims so far, `answers` are answered, and `due` will be once those under way are.

        On PostgreSQL a claim may begin before a heartbeat and be committed after it. So only what was in hand before
        the heartbeat was requested is lost if the store does not name it.
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
            if strangers[key] <= answers:  # the claim that took it is answered, and did not bring it
                job = stored[key]
                self._executor.hand_in(given_back(job.job_ref))
                strangers[key] = float("inf")
        self._strangers = strangers
