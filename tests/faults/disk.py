"""A disk in memory that can lose power: what was not synced survives in part, torn at sectors, in any combination.

SQLite reaches it through a VFS of its own, so the whole store runs on it unchanged.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
_names = itertools.count(1)


class PowerCut(apsw.IOError):
    """The machine has no power: no operation returns."""


Write = tuple[int, bytes]
Change = Write | int | None
"""A write at an offset, a new size, or None for a deletion."""


class Disk:
    """What each file holds on the platter, what programs see, and the changes in between, oldest first."""

    def __init__(self, rng: random.Random, image: dict[str, bytes] | None = None) -> None:
        self._rng = rng
        self._platter = {name: bytearray(content) for name, content in (image or {}).items()}
        self._unsynced: dict[str, list[Change]] = {}
        self.seen = {name: bytearray(content) for name, content in self._platter.items()}
        self.operations = 0
        self.cut_at: int | None = None

    @property
    def is_off(self) -> bool:
        """Whether the power was cut."""
        return self.cut_at is not None and self.operations >= self.cut_at

    def _operate(self) -> None:
        self.operations += 1
        if self.is_off:
            raise PowerCut("the power is cut")

    def write(self, name: str, offset: int, data: bytes) -> None:
        self._change(name, (offset, data))

    def resize(self, name: str, size: int) -> None:
        self._change(name, size)

    def delete(self, name: str, *, sync: bool) -> None:
        self._change(name, None)
        if sync:
            self._platter.pop(name, None)
            self._unsynced.pop(name, None)

    def _change(self, name: str, change: Change) -> None:
        self._operate()
        self._unsynced.setdefault(name, []).append(change)
        _apply(self.seen, name, change)

    def sync(self, name: str) -> None:
        """Bring a file to the platter. A new file brings its directory along: deletions around it become real."""
        self._operate()
        is_new = name not in self._platter
        self._platter[name] = bytearray(self.seen[name])
        self._unsynced.pop(name, None)
        if is_new:
            for other in [other for other in self._unsynced if other not in self.seen]:
                self._platter.pop(other, None)
                del self._unsynced[other]

    def image_after_cut(self) -> dict[str, bytes]:
        """Give one of the many states the platter may be in: any subset of what was not synced has reached it."""
        image = {name: bytearray(content) for name, content in self._platter.items()}
        share = self._rng.choice([0.0, 0.0, 0.1, 0.5, 0.9, 1.0])
        for name, changes in self._unsynced.items():
            for change in changes:
                if isinstance(change, tuple):
                    for sector in _sectors(*change):
                        if self._rng.random() < share:
                            _apply(image, name, sector)
                elif self._rng.random() < share:
                    _apply(image, name, change)
                elif change is None:
                    break  # still there: what came after belongs to a file nobody can find
        return {name: bytes(content) for name, content in image.items()}


def _sectors(offset: int, data: bytes) -> list[Write]:
    """Cut a write where the sectors end: each lands by itself."""
    edges = [offset, *range(offset - offset % SECTOR + SECTOR, offset + len(data), SECTOR), offset + len(data)]
    return [(start, data[start - offset : end - offset]) for start, end in itertools.pairwise(edges)]


def _apply(files: dict[str, bytearray], name: str, change: Change) -> None:
    if change is None:
        files.pop(name, None)
        return
    content = files.setdefault(name, bytearray())
    end = change if isinstance(change, int) else change[0] + len(change[1])
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if isinstance(change, int):
        del content[change:]
    else:
        content[change[0] : end] = change[1]


class _File:
    """One open file, as SQLite calls it. There is one connection, so locks need no keeping."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        disk.seen.setdefault(name, bytearray())

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - SQLite's names, here and below
        return bytes(self._disk.seen[self._name][offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.write(self._name, offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._disk.resize(self._name, size)

    def xSync(self, flags: int) -> None:  # noqa: ARG002, N802
        self._disk.sync(self._name)

    def xFileSize(self) -> int:  # noqa: N802
        return len(self._disk.seen[self._name])

    def xLock(self, level: int) -> None:  # noqa: N802
        pass

    def xUnlock(self, level: int) -> None:  # noqa: N802
        pass

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, operation: int, pointer: int) -> bool:  # noqa: ARG002, N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return SECTOR

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE  # what SQLite takes for granted on every UNIX

    def xClose(self) -> None:  # noqa: N802
        pass


class DiskVFS(apsw.VFS):
    """Stores every file of a connection on one disk. Unregister it when done."""

    def __init__(self, disk: Disk) -> None:
        self.name = f"disk-{next(_names)}"
        self._disk = disk
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # type: ignore[override]  # noqa: N802
        flags[1] = flags[0]
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return _File(self._disk, path or f"temporary-{next(_names)}")

    def xDelete(self, name: str, syncdir: bool) -> None:  # noqa: FBT001, N802
        self._disk.delete(name, sync=syncdir)

    def xAccess(self, name: str, flags: int) -> bool:  # noqa: ARG002, N802
        return name in self._disk.seen

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name


def lay_out(image: dict[str, bytes], directory: Path) -> None:
    """Write an image as real files, for the ordinary engine to open."""
    for path, content in image.items():
        (directory / Path(path).name).write_bytes(content)
