-- A workflow: its steps are jobs, whose numbers lie from `first_n` to `last_n` with few others between them. The counts
-- are those of its steps that are not final, are dead or held, and ended cancelled. It is deleted after `kept_until`, with
-- its steps, and never before its last one is final.
CREATE TABLE workflow (
  id          TEXT PRIMARY KEY,
  name        TEXT NOT NULL,
  state       TEXT NOT NULL,
  first_n     INTEGER NOT NULL,
  last_n      INTEGER NOT NULL,
  total       INTEGER NOT NULL,
  unfinished  INTEGER NOT NULL,
  stopped     INTEGER NOT NULL DEFAULT 0,
  dropped     INTEGER NOT NULL DEFAULT 0,
  queues      TEXT NOT NULL,
  created_at  REAL NOT NULL,
  finished_at REAL,
  kept_until  REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX workflow_state ON workflow (state) WHERE finished_at IS NULL;
CREATE INDEX workflow_kept ON workflow (kept_until) WHERE kept_until IS NOT NULL;

-- What a step is, written once: its name, and the numbers of the steps before and behind it. They come last in the row,
-- so that nobody who reads something else of it walks past them.
ALTER TABLE body ADD COLUMN step TEXT;
ALTER TABLE body ADD COLUMN parents TEXT;
ALTER TABLE body ADD COLUMN children TEXT;

-- How many steps before a step are not completed; null for a job that is no step. A library that does not know this would
-- leave steps waiting for good.
ALTER TABLE job ADD COLUMN pending INTEGER;
CREATE INDEX job_waiting ON job (queue) WHERE state = 'waiting';
