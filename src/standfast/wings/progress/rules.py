"""What a handler may report of its progress. That is checked where the handler runs, so that it sees the error."""

from __future__ import annotations

import logging
import math

from standfast.job import Claim
from standfast.printable import printable

log = logging.getLogger("standfast.worker")

LONGEST_NOTE = 200
"""The most characters of a note that are kept."""


def checked(claim: Claim, fraction: float, note: str | None) -> tuple[float, str | None]:
    """Return a reported share and note as they are kept; raise TypeError if the share is no number."""
    return _share(claim, fraction), _words(note)


def _share(claim: Claim, fraction: float) -> float:
    """Check a share of the work. One that is too high or too low is a mistake that must not fail the job."""
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or math.isnan(fraction):
        raise TypeError(f"job.progress takes the share that is done, from 0 to 1, such as 0.4, not {fraction!r}")
    if not 0 <= fraction <= 1:
        log.warning(
            "job %s says that its progress is %g; it is shown as %d %%, because progress is a share from 0 to 1",
            claim.id,
            fraction,
            100 if fraction > 1 else 0,
        )
    return min(1.0, max(0.0, float(fraction)))


def _words(note: str | None) -> str | None:
    return None if note is None else printable(str(note)[:LONGEST_NOTE])
