-- readable by: 21
-- Where a job's last failed attempt raised, redacted and capped; no row if it raised nothing.
CREATE TABLE traceback (
  n INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL,
  text TEXT NOT NULL
) STRICT;
