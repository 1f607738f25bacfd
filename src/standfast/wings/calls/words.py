"""How the store marks calls: the queue reason of a called job, and the worker id of a process that calls."""

from __future__ import annotations

from typing import Final

CALLED: Final = "retry"
"""The queue reason of a job that `run` called: if it is queued at all, it is to be tried again."""
CALLER = "caller:"
"""Prefix of the id of a worker that serves no queue and sweeps nothing: it runs what its process calls."""
