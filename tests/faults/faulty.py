"""The ordinary file system, seen through a VFS in which a counted operation fails or is the process's last.

As the default VFS it lies under the whole product: no seam is needed, and locks and shared memory are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

import apsw

UNDERNEATH = "unix"
OPERATIONS = ("open", "read", "write", "sync", "truncate", "size", "delete")

Hit = Callable[[str], None]
"""Called before each operation with its name; what it raises is what SQLite meets."""


class FailAt:
    """Fails the n-th operation from when it is armed: once, or that one and all that follow."""

    def __init__(
        self,
        n: int,
        error: type[apsw.Error] = apsw.IOError,
        *,
        lasting: bool = False,
        only: Container[str] = OPERATIONS,
    ) -> None:
        self._n = n
        self._only = only
        self._error = error
        self._lasting = lasting
        self._seen = 0
        self.armed = True
        self.fired = 0

    def __call__(self, operation: str) -> None:
        if not self.armed or operation not in self._only:
            return
        self._seen += 1
        if self._seen == self._n or (self._lasting and self._seen > self._n):
            self.fired += 1
            raise self._error(f"injected: {operation}")


class _File(apsw.VFSFile):
    def __init__(self, hit: Hit, name: Any, flags: list[int]) -> None:
        self._hit = hit
        super().__init__(UNDERNEATH, name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - SQLite's names, here and below
        self._hit("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._hit("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._hit("sync")
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._hit("truncate")
        super().xTruncate(size)

    def xFileSize(self) -> int:  # noqa: N802
        self._hit("size")
        return super().xFileSize()


class _VFS(apsw.VFS):
    def __init__(self, hit: Hit) -> None:
        self._hit = hit
        super().__init__("faulty", UNDERNEATH, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802
        self._hit("open")
        return _File(self._hit, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: FBT001, N802
        self._hit("delete")
        super().xDelete(name, syncdir)


@contextmanager
def underneath(hit: Hit) -> Iterator[None]:
    """Put the watched file system under everything that opens a database meanwhile."""
    vfs = _VFS(hit)
    try:
        yield
    finally:
        vfs.unregister()
