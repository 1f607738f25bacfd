"""How calls are known in the store: the queue reason of a job that was called, and the name of a process that calls."""

from __future__ import annotations

from typing import Final

CALLED: Final = "retry"
"""The queue reason of a job that `run` called: if it is queued at all, then to be tried again."""
CALLER = "caller:"
"""What the id of a worker begins with that serves no queue and sweeps nothing: it runs what its process calls."""
