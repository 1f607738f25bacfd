-- Statements of calls. How they are written: store/statements.py.

-- name: called_job
-- locks: jobs
-- waits: no
-- A call that was just stored. If it was stored before, another process may have it locked, and it is left there.
SELECT j.n, j.state, j.worker, j.token, j.ready_at IS NOT NULL FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = :id FOR UPDATE OF j SKIP LOCKED

-- name: job_not_begun
-- Whether a job still waits for its first attempt, and no other job was folded into it.
SELECT j.n FROM job AS j JOIN body AS b ON b.n = j.n WHERE j.n = :n AND j.state = 'queued' AND j.token = 0 AND b.coalesced IS NULL

-- name: handlers_named
-- The handlers that a name may mean: a queue's, or one of this name, or one written as queue/handler.
SELECT queue, name FROM handler WHERE queue = :name OR name = :name OR queue || '/' || name = :name ORDER BY queue, name

-- name: take_handed_over
-- locks: jobs
-- As take_jobs, for an attempt made elsewhere, for which there is no notice of a claim: setting parked_on gets it counted.
UPDATE job SET state = 'running', ready_at = NULL, parked_on = NULL, attempts = attempts + 1, token = token + 1, worker = :worker,
  claimed_at = :now, lease = coalesce(asked_lease, :lease), replay_mode = :replay_mode, timeout = :timeout::double precision,
  max_attempts = coalesce(budget, :attempts)
WHERE n = :n
