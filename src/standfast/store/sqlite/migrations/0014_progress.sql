-- readable by: 13
-- Effects tell which attempt wrote or looked last (`attempt`), and under which token each was first known to be done
-- (`done_in`): an attempt under that token made progress, and a job's attempts are counted from there (`progress_start`).
-- `failed_looks` counts looks in a row that failed for now.
ALTER TABLE effect ADD COLUMN attempt INTEGER;
ALTER TABLE effect ADD COLUMN done_in INTEGER;
ALTER TABLE job ADD COLUMN progress_start INTEGER;
ALTER TABLE job ADD COLUMN failed_looks INTEGER NOT NULL DEFAULT 0;
-- What follows when a look finds every effect there: the handler is resumed, or its job completed.
ALTER TABLE handler ADD COLUMN when_landed TEXT;
