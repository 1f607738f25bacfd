-- readable by: 12
-- Effects tell which attempt wrote or looked last (`attempt`), and under which token each was first known to be done
-- (`done_in`): an attempt under that token made progress, and a job's attempts are counted from there (`progress_start`).
-- `failed_looks` counts looks in a row that failed for now.
ALTER TABLE effect ADD COLUMN attempt integer;
ALTER TABLE effect ADD COLUMN done_in integer;
ALTER TABLE job ADD COLUMN progress_start integer;
ALTER TABLE job ADD COLUMN failed_looks integer NOT NULL DEFAULT 0;
-- What follows when a look finds every effect there: the handler is resumed, or its job completed.
ALTER TABLE handler ADD COLUMN when_landed text;
