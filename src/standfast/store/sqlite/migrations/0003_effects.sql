-- What a job's attempts did to the world, one row for each effect: begun before it, done after it with its receipt.
-- `verdict` is what a look at the world said last. A receipt that a fenced worker brought is kept as late evidence.
CREATE TABLE effect (
  n       INTEGER NOT NULL,
  name    TEXT NOT NULL,
  state   TEXT NOT NULL,
  receipt TEXT,
  verdict TEXT,
  token   INTEGER NOT NULL,
  at      REAL NOT NULL,
  late    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (n, name)
) STRICT, WITHOUT ROWID;

-- The gates a running job takes a place of, as a JSON list: limits, and the breaker it is the probe of.
ALTER TABLE job ADD COLUMN occupies TEXT;
CREATE INDEX gate_opening ON gate (opens_at) WHERE opens_at IS NOT NULL;
