"""Where did a handler fail? The line of the application's own code, without values, which may be secrets."""

from __future__ import annotations

import traceback
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from standfast.outcome import Failed
from standfast.printable import printable

BOUNDARY = frozenset({"standfast.spine.run", "standfast.worker.middleware", "standfast.celery.task_run"})
"""The modules that call handlers and tasks: the frames after the last frame of these are the application's."""
INSTALLED = {"site-packages", "dist-packages"}


def with_place(failed: Failed, error: BaseException) -> Failed:
    """Append to the failure's message where the exception was raised, if that is in the application's code."""
    found = place(error)
    if not found:
        return failed
    message = f"{failed.failure.message} ({found})".lstrip()
    return replace(failed, failure=replace(failed.failure, message=message))


def place(error: BaseException) -> str:
    """Return the innermost line of the application's code, or of the handler itself; nothing for a built-in handler."""
    frames = list(traceback.walk_tb(error.__traceback__))
    modules = [frame.f_globals.get("__name__", "") for frame, _ in frames]
    start = max((place + 1 for place, module in enumerate(modules) if module in BOUNDARY), default=len(modules))
    if start == len(frames) or _is_ours(modules[start]):
        return ""
    behind = zip(frames[start:], modules[start:], strict=True)
    own = [each for each, module in behind if not _is_ours(module) and not _is_library(each[0].f_code.co_filename)]
    frame, line = own[-1] if own else frames[start]
    code = frame.f_code
    return printable(f"at {Path(code.co_filename).name}:{line} in {code.co_name}")


def _is_ours(module: str) -> bool:
    return module.startswith("standfast.")


@cache
def _standard_library() -> tuple[str, ...]:
    import sysconfig  # noqa: PLC0415 - slow to import, and only failures need it

    return tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


def _is_library(file: str) -> bool:
    return file.startswith(("<frozen", *_standard_library())) or not INSTALLED.isdisjoint(Path(file).parts)
