"""The checks of our own tables against each other, in any dialect, for `doctor`."""

from __future__ import annotations

from collections.abc import Mapping

from standfast.errors import ConfigurationError

INCONSISTENT = """
SELECT 'jobs without a body', count(*) FROM job WHERE NOT EXISTS (SELECT 1 FROM body WHERE body.n = job.n)
UNION ALL
SELECT 'bodies without a job', count(*) FROM body WHERE NOT EXISTS (SELECT 1 FROM job WHERE job.n = body.n)
UNION ALL
SELECT 'results without a job', count(*) FROM ending WHERE NOT EXISTS (SELECT 1 FROM job WHERE job.n = ending.n)
UNION ALL
SELECT 'effects without a job', count(*) FROM effect WHERE NOT EXISTS (SELECT 1 FROM job WHERE job.n = effect.n)
"""
CONSISTENT = "every job has its body, every body, result and effect its job"


def check_consistent(found: Mapping[str, int]) -> None:
    """Refuse tables that contradict each other."""
    wrong = [f"{number} {what}" for what, number in found.items() if number]
    if wrong:
        raise ConfigurationError(
            f"the tables contradict each other: {', '.join(wrong)}; restore a backup, or ask for help"
        )
