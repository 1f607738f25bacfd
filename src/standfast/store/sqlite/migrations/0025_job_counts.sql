-- readable by: 21
-- How many jobs of each queue are where, so that no count walks the jobs. Most moves are counted already: `counter` says how
-- many were enqueued and claimed. Triggers write every other move here, so a count is exact whoever moved the job, an older
-- library included. What a plain job passes (INSERT of a due job, claim, completion) writes nothing here: the update
-- trigger is bound to columns that neither a claim nor a plain completion sets. So a move to running that sets one of them is
-- none that was told as a claim, and is counted here.
--   queued                  enqueued - claimed + this = jobs whose state is queued
--   waiting, dead, held     jobs in this state
--   parked                  queued jobs that a gate holds back
--   slot, hour              queued jobs due in the ten seconds, or in the hour, of this number: only those still to come are
--                           read, because a job whose time has come is made claimable without a word here
CREATE TABLE job_count (
  what   TEXT NOT NULL,
  slot   INTEGER NOT NULL,
  queue  TEXT NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY (what, slot, queue)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER job_count_inserted AFTER INSERT ON job WHEN NEW.state <> 'queued' OR NEW.ready_at IS NULL BEGIN
  INSERT INTO job_count (what, slot, queue, number)
  SELECT NEW.state, 0, NEW.queue, 1 WHERE NEW.state IN ('waiting', 'dead', 'held')
  UNION ALL
  -- A step is told as enqueued when its workflow starts.
  SELECT 'queued', 0, NEW.queue, -1 WHERE NEW.state = 'waiting'
  UNION ALL
  SELECT 'parked', 0, NEW.queue, 1 WHERE NEW.state = 'queued' AND NEW.parked_on IS NOT NULL
  UNION ALL
  SELECT 'slot', CAST(min(NEW.due_at, 1e14) / 10 AS INTEGER), NEW.queue, 1
  WHERE NEW.state = 'queued' AND NEW.parked_on IS NULL AND NEW.ready_at IS NULL
  UNION ALL
  SELECT 'hour', CAST(min(NEW.due_at, 1e14) / 3600 AS INTEGER), NEW.queue, 1
  WHERE NEW.state = 'queued' AND NEW.parked_on IS NULL AND NEW.ready_at IS NULL
  ON CONFLICT (what, slot, queue) DO UPDATE SET number = number + excluded.number;
END;

CREATE TRIGGER job_count_updated AFTER UPDATE OF due_at, parked_on, pending ON job
WHEN OLD.state IN ('queued', 'waiting', 'dead', 'held') OR NEW.state IN ('queued', 'waiting', 'dead', 'held') BEGIN
  INSERT INTO job_count (what, slot, queue, number)
  SELECT OLD.state, 0, OLD.queue, -1
  WHERE OLD.state <> NEW.state AND OLD.state IN ('queued', 'waiting', 'dead', 'held')
  UNION ALL
  SELECT NEW.state, 0, NEW.queue, 1 WHERE OLD.state <> NEW.state AND NEW.state IN ('queued', 'waiting', 'dead', 'held')
  UNION ALL
  SELECT 'parked', 0, OLD.queue, -1 WHERE OLD.state = 'queued' AND OLD.parked_on IS NOT NULL
  UNION ALL
  SELECT 'parked', 0, NEW.queue, 1 WHERE NEW.state = 'queued' AND NEW.parked_on IS NOT NULL
  UNION ALL
  SELECT 'slot', CAST(min(OLD.due_at, 1e14) / 10 AS INTEGER), OLD.queue, -1
  WHERE OLD.state = 'queued' AND OLD.parked_on IS NULL AND OLD.ready_at IS NULL
  UNION ALL
  SELECT 'hour', CAST(min(OLD.due_at, 1e14) / 3600 AS INTEGER), OLD.queue, -1
  WHERE OLD.state = 'queued' AND OLD.parked_on IS NULL AND OLD.ready_at IS NULL
  UNION ALL
  SELECT 'slot', CAST(min(NEW.due_at, 1e14) / 10 AS INTEGER), NEW.queue, 1
  WHERE NEW.state = 'queued' AND NEW.parked_on IS NULL AND NEW.ready_at IS NULL
  UNION ALL
  SELECT 'hour', CAST(min(NEW.due_at, 1e14) / 3600 AS INTEGER), NEW.queue, 1
  WHERE NEW.state = 'queued' AND NEW.parked_on IS NULL AND NEW.ready_at IS NULL
  ON CONFLICT (what, slot, queue) DO UPDATE SET number = number + excluded.number;
END;

CREATE TRIGGER job_count_deleted AFTER DELETE ON job WHEN OLD.state IN ('queued', 'waiting', 'dead', 'held') BEGIN
  INSERT INTO job_count (what, slot, queue, number)
  SELECT OLD.state, 0, OLD.queue, -1 WHERE true
  UNION ALL
  SELECT 'parked', 0, OLD.queue, -1 WHERE OLD.state = 'queued' AND OLD.parked_on IS NOT NULL
  UNION ALL
  SELECT 'slot', CAST(min(OLD.due_at, 1e14) / 10 AS INTEGER), OLD.queue, -1
  WHERE OLD.state = 'queued' AND OLD.parked_on IS NULL AND OLD.ready_at IS NULL
  UNION ALL
  SELECT 'hour', CAST(min(OLD.due_at, 1e14) / 3600 AS INTEGER), OLD.queue, -1
  WHERE OLD.state = 'queued' AND OLD.parked_on IS NULL AND OLD.ready_at IS NULL
  ON CONFLICT (what, slot, queue) DO UPDATE SET number = number + excluded.number;
END;

-- What is here already is counted once.
INSERT INTO job_count (what, slot, queue, number)
SELECT 'queued', 0, queue, sum(number) FROM (
  SELECT queue, count(*) AS number FROM job WHERE state = 'queued' GROUP BY queue
  UNION ALL
  SELECT queue, CASE name WHEN 'claimed' THEN value ELSE -value END FROM counter WHERE name IN ('enqueued', 'claimed')
) GROUP BY queue
UNION ALL
SELECT state, 0, queue, count(*) FROM job WHERE state IN ('waiting', 'dead', 'held') GROUP BY state, queue
UNION ALL
SELECT 'parked', 0, queue, count(*) FROM job WHERE state = 'queued' AND parked_on IS NOT NULL GROUP BY queue
UNION ALL
SELECT 'slot', CAST(min(due_at, 1e14) / 10 AS INTEGER), queue, count(*) FROM job
WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL GROUP BY 2, queue
UNION ALL
SELECT 'hour', CAST(min(due_at, 1e14) / 3600 AS INTEGER), queue, count(*) FROM job
WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL GROUP BY 2, queue;
