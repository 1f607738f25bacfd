-- readable by: 11
-- How many jobs of each queue are where, so that no count walks the jobs. Most moves are counted already: `counter` and
-- `counted` say how many were enqueued and claimed. Triggers write every other move, so a count is exact whoever moved the
-- job, an older library included. What a plain job passes (INSERT of a due job, claim, completion) writes nothing here: the
-- update trigger is bound to columns that neither a claim nor a plain completion sets. So a move to running that sets one of
-- them is none that was told as a claim, and is counted here.
--   queued                  enqueued - claimed + this = jobs whose state is queued
--   waiting, dead, held     jobs in this state
--   parked                  queued jobs that a gate holds back
--   slot, hour              queued jobs due in the ten seconds, or in the hour, of this number: only those still to come are
--                           read, because a job whose time has come is made claimable without a word here
CREATE TABLE job_count (
  what   text NOT NULL,
  slot   bigint NOT NULL,
  queue  text NOT NULL,
  number bigint NOT NULL,
  PRIMARY KEY (what, slot, queue)
);
-- What was added since they were last put together: a row that all must update would make them queue up.
CREATE TABLE job_counted (
  what   text NOT NULL,
  slot   bigint NOT NULL,
  queue  text NOT NULL,
  number bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Where a job with these columns is counted; none for what the counters tell, or what is not counted.
CREATE FUNCTION places_of(state text, ready_at double precision, parked_on text, due_at double precision)
RETURNS TABLE (what text, slot bigint) LANGUAGE sql IMMUTABLE AS $$
  SELECT state, 0::bigint WHERE state IN ('queued', 'waiting', 'dead', 'held')
  UNION ALL
  SELECT 'parked', 0 WHERE state = 'queued' AND parked_on IS NOT NULL
  UNION ALL
  SELECT 'slot', floor(least(due_at, 1e14) / 10)::bigint WHERE state = 'queued' AND parked_on IS NULL AND ready_at IS NULL
  UNION ALL
  SELECT 'hour', floor(least(due_at, 1e14) / 3600)::bigint WHERE state = 'queued' AND parked_on IS NULL AND ready_at IS NULL
$$;

-- The schema's own tables, also where a statement names the schema and the search path does not.
CREATE FUNCTION count_inserted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
  INSERT INTO job_counted (what, slot, queue, number)
  SELECT p.what, p.slot, NEW.queue, 1 FROM places_of(NEW.state, NEW.ready_at, NEW.parked_on, NEW.due_at) AS p WHERE p.what <> 'queued'
  UNION ALL
  -- A step is told as enqueued when its workflow starts.
  SELECT 'queued', 0, NEW.queue, -1 WHERE NEW.state = 'waiting';
  RETURN NULL;
END $$;

CREATE FUNCTION count_updated() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
  INSERT INTO job_counted (what, slot, queue, number)
  SELECT moved.what, moved.slot, NEW.queue, sum(moved.number) FROM (
    SELECT p.what, p.slot, -1 AS number FROM places_of(OLD.state, OLD.ready_at, OLD.parked_on, OLD.due_at) AS p
    UNION ALL
    SELECT p.what, p.slot, 1 FROM places_of(NEW.state, NEW.ready_at, NEW.parked_on, NEW.due_at) AS p
  ) AS moved GROUP BY moved.what, moved.slot HAVING sum(moved.number) <> 0;
  RETURN NULL;
END $$;

CREATE FUNCTION count_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
  INSERT INTO job_counted (what, slot, queue, number)
  SELECT p.what, p.slot, OLD.queue, -1 FROM places_of(OLD.state, OLD.ready_at, OLD.parked_on, OLD.due_at) AS p;
  RETURN NULL;
END $$;

CREATE TRIGGER job_count_inserted AFTER INSERT ON job FOR EACH ROW
WHEN (NEW.state <> 'queued' OR NEW.ready_at IS NULL) EXECUTE FUNCTION count_inserted();
CREATE TRIGGER job_count_updated AFTER UPDATE OF due_at, parked_on, pending ON job FOR EACH ROW
WHEN (OLD.state IN ('queued', 'waiting', 'dead', 'held') OR NEW.state IN ('queued', 'waiting', 'dead', 'held'))
EXECUTE FUNCTION count_updated();
CREATE TRIGGER job_count_deleted AFTER DELETE ON job FOR EACH ROW
WHEN (OLD.state IN ('queued', 'waiting', 'dead', 'held')) EXECUTE FUNCTION count_deleted();

-- Counts what is here, whatever was counted before: for a store that had no counts, and for one that was copied.
CREATE FUNCTION count_all_jobs() RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
  DELETE FROM job_count;
  DELETE FROM job_counted;
  INSERT INTO job_count (what, slot, queue, number)
  SELECT what, slot, queue, sum(number) FROM (
    SELECT p.what, p.slot, j.queue, count(*) AS number FROM job AS j CROSS JOIN LATERAL places_of(j.state, j.ready_at, j.parked_on, j.due_at) AS p
    GROUP BY p.what, p.slot, j.queue
    UNION ALL
    SELECT 'queued', 0, queue, CASE name WHEN 'claimed' THEN value ELSE -value END FROM (
      SELECT queue, name, value FROM counter UNION ALL SELECT queue, name, value FROM counted) AS c
    WHERE name IN ('enqueued', 'claimed')
  ) AS found GROUP BY what, slot, queue;
END $$;
SELECT count_all_jobs();
