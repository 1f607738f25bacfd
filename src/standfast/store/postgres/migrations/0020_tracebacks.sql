-- readable by: 11
-- Where a job's last failed attempt raised, redacted and capped; no row if it raised nothing.
CREATE TABLE traceback (
  n bigint PRIMARY KEY,
  attempt integer NOT NULL,
  text text NOT NULL
);
