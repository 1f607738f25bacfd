-- A workflow: its steps are jobs, whose numbers lie from `first_n` to `last_n` with few others between them. The counts
-- are those of its steps that are not final, are dead or held, and ended cancelled. It is deleted after `kept_until`, with
-- its steps, and never before its last one is final.
CREATE TABLE workflow (
  id          text PRIMARY KEY,
  name        text NOT NULL,
  state       text NOT NULL,
  first_n     bigint NOT NULL,
  last_n      bigint NOT NULL,
  total       integer NOT NULL,
  unfinished  integer NOT NULL,
  stopped     integer NOT NULL DEFAULT 0,
  dropped     integer NOT NULL DEFAULT 0,
  queues      text NOT NULL,
  created_at  double precision NOT NULL,
  finished_at double precision,
  kept_until  double precision
) WITH (fillfactor = 50);
CREATE INDEX workflow_state ON workflow (state) WHERE finished_at IS NULL;
CREATE INDEX workflow_kept ON workflow (kept_until) WHERE kept_until IS NOT NULL;

-- What a step is, written once: its name, and the numbers of the steps before and behind it.
ALTER TABLE body ADD COLUMN step text;
ALTER TABLE body ADD COLUMN parents text;
ALTER TABLE body ADD COLUMN children text;

-- How many steps before a step are not completed; null for a job that is no step. A library that does not know this would
-- leave steps waiting for good.
ALTER TABLE job ADD COLUMN pending integer;
CREATE INDEX job_waiting ON job (queue) WHERE state = 'waiting';
