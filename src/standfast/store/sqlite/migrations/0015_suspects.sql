-- readable by: 12
-- What a dead worker held is suspect: it may have killed it, and is run alone. A claim passes suspects over, so its index
-- knows them; their own has none while nobody dies.
ALTER TABLE job ADD COLUMN suspect INTEGER;
DROP INDEX job_ready;
CREATE INDEX job_ready ON job (queue, handler, priority, ready_at, n, suspect) WHERE state = 'queued' AND ready_at IS NOT NULL;
CREATE INDEX job_suspect ON job (queue, handler, ready_at, n) WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL;

-- `process` names the lock that the worker's process holds. `died_at`, what it `ran` then, how many jobs it `held` and how
-- many its whole process did (`company`) are written when it is found dead or late, and cleared if it is heard of again.
-- `apart` is the queue whose suspects it runs, holding nothing else.
ALTER TABLE worker ADD COLUMN process TEXT;
ALTER TABLE worker ADD COLUMN died_at REAL;
ALTER TABLE worker ADD COLUMN ran TEXT;
ALTER TABLE worker ADD COLUMN held INTEGER;
ALTER TABLE worker ADD COLUMN company INTEGER;
ALTER TABLE worker ADD COLUMN apart TEXT;
