-- Statements of backup. How they are written: store/statements.py.

-- name: restored_jobs
SELECT j.n, b.id, j.queue, j.handler, j.token, j.attempts FROM job AS j JOIN body AS b ON b.n = j.n
WHERE j.state IN ('queued', 'running') LIMIT :limit

-- name: hold_jobs
-- locks: jobs
UPDATE job SET state = 'held', finished_at = :now, ready_at = NULL, parked_on = NULL, occupies = NULL, worker = NULL, landed = :landed::text,
  token = token + 1
WHERE n IN :integers(numbers)

-- name: contents
-- What a copy must hold as well: the rows of each table, and the jobs in each state.
SELECT 'jobs', count(*) FROM job UNION ALL SELECT 'bodies', count(*) FROM body UNION ALL SELECT 'endings', count(*) FROM ending
UNION ALL SELECT 'history', count(*) FROM history UNION ALL SELECT 'keys', count(*) FROM idempotency
UNION ALL SELECT 'journal', coalesce(max(seq), 0) FROM journal UNION ALL SELECT state, count(*) FROM job GROUP BY state
