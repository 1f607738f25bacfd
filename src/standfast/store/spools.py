"""One spool object for each file in a process; a forked child inherits none of its handles."""

from __future__ import annotations

import threading
from pathlib import Path
from weakref import WeakValueDictionary

from standfast.errors import ConfigurationError
from standfast.portable import at_fork
from standfast.store.spool import Spool

_spools: WeakValueDictionary[Path, Spool] = WeakValueDictionary()
_making = threading.Lock()


def spool_at(path: Path, target: str) -> Spool:
    """Return this process's spool for a file: what two objects spool into one file must stay in one order."""
    path = Path(path).resolve()
    with _making:
        spool = _spools.get(path)
        if spool is None:
            spool = _spools[path] = Spool(path, target)
        elif spool.target != target:
            raise ConfigurationError(f"{path} is the spool of {spool.target}; give {target} its own spool")
        return spool


def _before_fork() -> None:
    _making.acquire()
    for spool in list(_spools.values()):
        spool.before_fork()


def _after_fork_in_parent() -> None:
    for spool in list(_spools.values()):
        spool.after_fork()
    _making.release()


def _after_fork_in_child() -> None:
    global _making  # noqa: PLW0603 - the lock is held, by the thread that forked
    for spool in list(_spools.values()):
        spool.after_fork_in_child()
    _making = threading.Lock()


at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
