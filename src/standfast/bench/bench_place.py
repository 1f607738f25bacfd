"""Where the bench runs: its own directory, on the disk that the user names; and a description of that machine."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from standfast.bench import raw
from standfast.errors import ConfigurationError

BYTES_PER_JOB = 2_000
"""Disk space per job of a standing backlog: its rows, their indexes, the log, and the rows that draining leaves."""
NOT_A_DISK = ("tmpfs", "ramfs")


def directory_of(url: str | None) -> Path:
    """Return the directory whose disk is measured: that of the store in the URL, else the current one."""
    if url is None:
        return Path.cwd()
    if url == ":memory:" or ("://" in url and not url.startswith("sqlite:///")):
        raise ConfigurationError(f"bench measures a disk, and {url!r} names none; write sqlite:///file.db")
    named = Path(url.removeprefix("sqlite:///")).resolve()
    return named if named.is_dir() else named.parent


def check_room(directory: Path, jobs: int) -> None:
    """Refuse a disk that the standing backlogs would fill."""
    if not directory.is_dir():
        raise ConfigurationError(f"{directory} is not a directory; create it first, or give another --url")
    free, needed = shutil.disk_usage(directory).free, jobs * BYTES_PER_JOB
    if free < needed:
        raise ConfigurationError(
            f"{directory} has {free // 10**6} MB free and this needs about {needed // 10**6} MB; "
            "use --quick, or --url on another disk"
        )


def file_system(directory: Path, mounts: str | None = None) -> dict[str, str]:
    """Return a directory's file system; unknown if the kernel has no table of mounts."""
    table = Path("/proc/self/mountinfo")
    text = mounts if mounts is not None else table.read_text() if table.exists() else ""
    best = {"kind": "unknown", "mount": "", "device": ""}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        mount, kind = left.split()[4].replace("\\040", " "), right.split()
        if directory.resolve().is_relative_to(mount) and len(mount) >= len(best["mount"]):
            best = {"kind": kind[0], "mount": mount, "device": kind[1]}
    return best


def machine(directory: Path) -> dict[str, Any]:
    """Describe the machine of the measurement."""
    disk = file_system(directory)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "directory": str(directory),
        "file_system": disk,
        "is_a_disk": disk["kind"] not in NOT_A_DISK,
        "versions": {"standfast": _own_version(), "python": sys.version.split()[0], **raw.versions()},
    }


def _processor() -> str:
    table = Path("/proc/cpuinfo")
    for line in table.read_text().splitlines() if table.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _own_version() -> str:
    try:
        return version("standfast")
    except PackageNotFoundError:
        return "from source"
