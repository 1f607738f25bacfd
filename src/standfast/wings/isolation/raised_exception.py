"""An exception on its way from a child process to its worker: pickled there, rebuilt here.

Reading a pickle can run code. The worker reads one only from the socket of a child that it started itself, which runs
the same application code as the worker.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

from standfast.concurrency.guarded import call_guarded
from standfast.failure.classify import JUDGED, RaisedElsewhere
from standfast.failure.traceback_text import RemoteTraceback
from standfast.outcome import Failed

MAIN = "__mp_main__"
"""The name of the main program in a child, as in `multiprocessing`: its `__main__` guard keeps it from starting."""
LARGEST = 1 << 20
"""The most bytes of a pickled exception that are sent; it may refer to anything."""


def pickled(error: BaseException) -> bytes | None:
    """Return an exception as bytes; None if it cannot be sent."""
    if not isinstance(error, Exception):  # an exit or a cancellation must not be raised in the worker
        return None
    found = call_guarded(lambda: pickle.dumps(error), lambda _error: None)
    return found if found is not None and len(found) <= LARGEST else None


def rebuilt(sent: bytes | None, failed: Failed, trace: str) -> Exception:
    """Return the exception a child raised, judged as the child judged it; RaisedElsewhere if it cannot be rebuilt."""
    error = None if sent is None else call_guarded(lambda: _Reader(io.BytesIO(sent)).load(), lambda _error: None)
    if not isinstance(error, Exception) or isinstance(error, StopIteration):
        return RaisedElsewhere(failed, trace)
    vars(error)[JUDGED] = failed
    error.__cause__ = RemoteTraceback(trace)
    return error


class _Reader(pickle.Unpickler):
    """Finds classes only in modules that the worker has imported: an import could block its event loop."""

    def find_class(self, module: str, name: str) -> Any:
        if module == MAIN:
            module = "__main__"
        if module not in sys.modules:
            raise pickle.UnpicklingError(f"{module} is not imported here")
        return super().find_class(module, name)
