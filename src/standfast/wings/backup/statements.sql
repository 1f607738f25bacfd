-- Statements of backup. How they are written: store/statements.py.

-- name: restored_jobs
SELECT j.n, b.id, j.queue, j.handler, j.token, j.attempts FROM job AS j JOIN body AS b ON b.n = j.n
WHERE j.state IN ('queued', 'running') LIMIT :limit

-- name: hold_jobs
-- locks: jobs
UPDATE job SET state = 'held', finished_at = :now, ready_at = NULL, parked_on = NULL, occupies = NULL, worker = NULL, landed = :landed::text,
  token = token + 1
WHERE n IN :integers(numbers)

-- name: automatic_replays
-- Letters that would be replayed by themselves: when their time comes, or once another policy is in force.
SELECT j.n, j.token, b.id, j.queue, e.triage::json->>'replay_status' FROM ending AS e JOIN job AS j ON j.n = e.n JOIN body AS b ON b.n = e.n
WHERE e.replay_at IS NOT NULL AND j.state IN ('dead', 'held') AND e.triage::json->>'replay_status' = 'scheduled'
UNION ALL
SELECT j.n, j.token, b.id, j.queue, e.triage::json->>'replay_status' FROM ending AS e JOIN job AS j ON j.n = e.n JOIN body AS b ON b.n = e.n
WHERE e.refused_under IS NOT NULL AND j.state IN ('dead', 'held') AND e.triage::json->>'replay_status' IN ('denied', 'pending_review')
LIMIT :limit

-- name: take_back_replays
-- locks: jobs
UPDATE ending SET replay_at = NULL, refused_under = NULL,
  triage = json_set(triage, '$.replay_status', 'pending_review', '$.replay_at', NULL, '$.note', :note)
WHERE n IN :integers(numbers)

-- name: take_back_replays (postgres)
UPDATE ending SET replay_at = NULL, refused_under = NULL,
  triage = (triage::jsonb || jsonb_build_object('replay_status', 'pending_review', 'replay_at', NULL, 'note', :note::text))::text
WHERE n IN :integers(numbers)

-- name: valid_authority
-- Denials and grants that are used up allow nothing.
SELECT (SELECT count(*) FROM token WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)),
  (SELECT count(*) FROM consent WHERE revoked_at IS NULL AND expires_at > :now AND mode <> 'deny' AND (uses IS NULL OR used < uses))

-- name: contents
-- What a copy must hold as well: the rows of each table, and the jobs in each state.
SELECT 'jobs', count(*) FROM job UNION ALL SELECT 'bodies', count(*) FROM body UNION ALL SELECT 'endings', count(*) FROM ending
UNION ALL SELECT 'history', count(*) FROM history UNION ALL SELECT 'keys', count(*) FROM idempotency
UNION ALL SELECT 'journal', coalesce(max(seq), 0) FROM journal UNION ALL SELECT state, count(*) FROM job GROUP BY state
