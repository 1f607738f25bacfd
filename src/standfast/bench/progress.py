"""A line that says what is being measured, on a terminal and nowhere else."""

from __future__ import annotations

import sys
from typing import TextIO

CLEAR = "\r\x1b[K"


class ProgressLine:
    """Call it with what happens now; it writes over what it wrote before."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._visible = self._stream.isatty()

    def __call__(self, text: str) -> None:
        """Show this."""
        if self._visible:
            self._stream.write(CLEAR + text)
            self._stream.flush()

    def clear(self) -> None:
        """Clear the line for the next writer."""
        self("")
