-- Decisions that act, one link for each transaction that made some; each link's hash covers the link before it. `at` is
-- wall time, and like `entries` the very text that was hashed. Nothing is ever changed or deleted here. A library that
-- does not know this table would decide without a trace, so it may not use the store any more.
CREATE TABLE audit (
  seq      INTEGER PRIMARY KEY,
  at       TEXT NOT NULL,
  entries  TEXT NOT NULL,
  previous TEXT NOT NULL,
  hash     TEXT NOT NULL
) STRICT;

-- Whose chain it is and how far it has come: one row, or none before the first decision.
CREATE TABLE chain (
  only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
  store    TEXT NOT NULL,
  seq      INTEGER NOT NULL,
  hash     TEXT NOT NULL
) STRICT;
