"""What `scan --fix` adds to a file: small functions that need only the standard library."""

from __future__ import annotations

import re
from typing import NamedTuple


class Helper(NamedTuple):
    """A function, and the names that it defines at module level."""

    source: str
    defines: tuple[str, ...]
    logs: bool

    def renamed(self, names: dict[str, str]) -> str:
        """Return its source with other names for what it defines, and for `logging`."""
        return re.sub(r"\b\w+\b", lambda found: names.get(found[0], found[0]), self.source)


HELPERS = {
    "_keep_task": Helper(
        '''

_kept_tasks = set()


def _keep_task(task):
    """Keep a task until it ends, so that it is not garbage-collected. It still dies with the process."""
    if task is not None:
        _kept_tasks.add(task)
        task.add_done_callback(_kept_tasks.discard)
    return task
''',
        ("_keep_task", "_kept_tasks"),
        logs=False,
    ),
    "_log_error_of": Helper(
        '''

def _log_error_of(future):
    """Log the error of a future that nobody waits for."""
    if hasattr(future, "add_done_callback"):
        future.add_done_callback(_log_error)
    return future


def _log_error(future):
    if not future.cancelled() and future.exception() is not None:
        logging.getLogger(__name__).error("a background call failed", exc_info=future.exception())
''',
        ("_log_error_of", "_log_error"),
        logs=True,
    ),
    "_log_errors_in": Helper(
        '''

def _log_errors_in(results):
    """Log the errors among results that nobody reads."""
    for result in results:
        if isinstance(result, Exception):
            logging.getLogger(__name__).error("a gathered call failed", exc_info=result)
    return results
''',
        ("_log_errors_in",),
        logs=True,
    ),
    "_log_swallowed": Helper(
        '''

def _log_swallowed():
    """Log the error that is being handled."""
    logging.getLogger(__name__).warning("a network call failed and is not tried again", exc_info=True)
''',
        ("_log_swallowed",),
        logs=True,
    ),
}
