-- Statements of calls. How they are written: store/statements.py.

-- name: called_job
-- locks: jobs
-- waits: no
-- A call that was just stored. One that came before may be in other hands, and is left there.
SELECT j.n, j.state, j.worker, j.token, j.ready_at IS NOT NULL FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = :id FOR UPDATE OF j SKIP LOCKED

-- name: handlers_named
-- The handlers that a name may mean: a queue's, or one of this name, or one written as queue/handler.
SELECT queue, name FROM handler WHERE queue = :name OR name = :name OR queue || '/' || name = :name ORDER BY queue, name
