-- readable by: 21
-- How often a queue was claimed from, and when last, is what its counter says: a claim need not write to the queue's row.
ALTER TABLE counter ADD COLUMN at REAL;
INSERT INTO counter (queue, name, value, at) SELECT name, 'claimed', claims, claimed_at FROM queue WHERE claimed_at IS NOT NULL
ON CONFLICT (queue, name) DO UPDATE SET value = excluded.value, at = excluded.at;
ALTER TABLE queue DROP COLUMN claims;
ALTER TABLE queue DROP COLUMN claimed_at;
