-- readable by: 11
-- What a dead worker held is suspect: it may have killed it, and is run alone. A claim passes suspects over; their own
-- index has none while nobody dies.
ALTER TABLE job ADD COLUMN suspect integer;
CREATE INDEX job_suspect ON job (queue, handler, ready_at, n) WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL;

-- `process` names the lock that the worker's process holds. `died_at`, what it `ran` then, how many jobs it `held` and how
-- many its whole process did (`company`) are written when it is found dead or late, and cleared if it is heard of again.
-- `apart` is the queue whose suspects it runs, holding nothing else.
ALTER TABLE worker ADD COLUMN process text;
ALTER TABLE worker ADD COLUMN died_at double precision;
ALTER TABLE worker ADD COLUMN ran text;
ALTER TABLE worker ADD COLUMN held integer;
ALTER TABLE worker ADD COLUMN company integer;
ALTER TABLE worker ADD COLUMN apart text;
