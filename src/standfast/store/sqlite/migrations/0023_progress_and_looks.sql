-- readable by: 21
-- How far an attempt says it is; one row for each job that said so, of its newest attempt that did.
CREATE TABLE job_progress (
  n        INTEGER PRIMARY KEY,
  token    INTEGER NOT NULL,
  attempt  INTEGER NOT NULL,
  fraction REAL NOT NULL,
  note     TEXT,
  at       REAL NOT NULL
) STRICT;

-- Every look at an effect: what it said, and what it found. `effect` has the last word on each.
CREATE TABLE look (
  n       INTEGER NOT NULL,
  line    INTEGER NOT NULL,
  name    TEXT NOT NULL,
  verdict TEXT NOT NULL,
  receipt TEXT,
  at      REAL NOT NULL,
  attempt INTEGER,
  PRIMARY KEY (n, line)
) STRICT, WITHOUT ROWID;
