"""A line that says what is being measured, on a terminal only."""

from __future__ import annotations

import sys
from typing import TextIO

CLEAR = "\r\x1b[K"


class ProgressLine:
    """Call it with the current activity; it overwrites its earlier text."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._visible = self._stream.isatty()

    def __call__(self, text: str) -> None:
        """Show a text."""
        if self._visible:
            self._stream.write(CLEAR + text)
            self._stream.flush()

    def clear(self) -> None:
        """Clear the line for the next writer."""
        self("")
