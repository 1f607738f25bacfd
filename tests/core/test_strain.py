"""What holds a store back from outside the queue, in words."""

from __future__ import annotations

import pytest

from standfast.printable import APART
from standfast.wings.health.strain import issues

HOUR = 3600.0


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, []),
        ({"snapshots": [("a transaction of psql (pid 7)", 600.0)]}, []),
        (
            {"snapshots": [("a transaction of psql (pid 7)", HOUR)]},
            ["a transaction of psql (pid 7) has held a snapshot for 1 h: w"],
        ),
        (
            {"snapshots": [("the prepared transaction x", 1.0), ("the replication slot y", None)]},
            ["the replication slot y has held a snapshot for long"],
        ),
        ({"dead": 100_000, "live": 0}, []),
        ({"dead": 200_000, "live": 20_000}, []),
        (
            {"dead": 200_001, "live": 20_000},
            [f"the table of jobs has 200{APART}001 dead rows to 20{APART}000 live ones"],
        ),
        ({"promotion": ("leaving", "postgresql://home")}, ["a promotion to postgresql://home is running"]),
        ({"promotion": ("interrupted", "postgresql://home")}, ["a promotion to postgresql://home was interrupted"]),
        ({"promotion": ("filling", "")}, ["standfast promote is filling this store, or was interrupted"]),
    ],
)
def test_what_holds_it_back_is_told(facts, said):
    found = list(issues(**facts))
    assert [issue[: len(start)] for issue, start in zip(found, said, strict=True)] == said
