-- Statements of threads. How they are written: store/statements.py.

-- columns: standfast.wings.threads.scripts.Member
from j: n, token, handler, state, priority, landed, parked_on, asked_expiry
from b: id, coalesced, created_at, details
first_seen_at: coalesce(b.first_seen_at, b.created_at)

-- name: lock_gates (postgres only)
-- locks: gates
-- SQLite has one writer at a time.
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || gate, 57)) FROM jsonb_array_elements_text(:gates::jsonb) AS gate

-- name: try_gate (postgres only)
-- locks: gates
-- waits: no
-- SQLite has one writer at a time.
SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' ' || :gate, 57))

-- name: gate_of_job
SELECT j.thread_gate FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = :id AND j.thread_gate IS NOT NULL

-- name: thread_members
-- locks: jobs
-- The rows are locked: a decision based on them must find them unchanged when it writes.
SELECT :columns(Member)
FROM job AS j JOIN body AS b ON b.n = j.n WHERE j.thread_gate = :gate AND j.finished_at IS NULL ORDER BY j.n FOR UPDATE OF j

-- name: body_of
SELECT payload, idempotency_key, details FROM body WHERE n = :n

-- name: fold_body
-- locks: jobs
UPDATE body SET payload = :payload, idempotency_key = :key, details = :details, coalesced = :coalesced WHERE n = :n

-- name: alias_folded (postgres only)
-- locks: aliases
-- Which job an id stands for. The first entry counts.
INSERT INTO alias (id, owner, at) VALUES (:id, :owner, :now) ON CONFLICT (id) DO NOTHING

-- name: fold_job
-- locks: jobs
UPDATE job SET priority = max(priority, :priority), due_at = min(due_at, :due_at), asked_expiry = :asked_expiry,
  expires_at = nullif(min(coalesce(:asked_expiry, 9e99),
    coalesce(entered_at + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue), 9e99)), 9e99)
WHERE n = :n

-- name: fold_job (postgres)
UPDATE job SET priority = greatest(priority, :priority), due_at = least(due_at, :due_at),
  asked_expiry = :asked_expiry::double precision,
  expires_at = least(:asked_expiry::double precision, entered_at + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue))
WHERE n = :n

-- name: enter_thread
-- locks: jobs
UPDATE body SET thread_key = :thread_key, first_seen_at = :first_seen_at::double precision WHERE n = :n

-- name: raise_priority
-- locks: jobs
UPDATE job SET priority = max(priority, :priority) WHERE n = :n

-- name: raise_priority (postgres)
UPDATE job SET priority = greatest(priority, :priority) WHERE n = :n

-- name: join_thread
-- locks: jobs
UPDATE job SET thread_gate = :gate, parked_on = :parked_on::text,
  ready_at = CASE WHEN :parked_on::text IS NULL THEN ready_at END
WHERE n = :n

-- name: gate_holder
SELECT holder FROM gate WHERE key = :gate

-- name: take_gate
-- locks: gates
INSERT INTO gate (key, kind, holder) VALUES (:gate, 'thread', :n)

-- name: hand_gate
-- locks: gates
UPDATE gate SET holder = :n WHERE key = :gate

-- name: drop_gate
-- locks: gates
DELETE FROM gate WHERE key = :gate

-- name: next_parked
SELECT n, queue FROM job WHERE state = 'queued' AND parked_on = :gate ORDER BY n LIMIT 1

-- name: newest_unclaimed
-- The newest never-claimed job of a thread, even if it is not due yet; with its details and those of this job.
SELECT b.id, b.details, before.details FROM job AS j JOIN body AS b ON b.n = j.n JOIN body AS before ON before.n = :n
WHERE j.thread_gate = :gate AND j.finished_at IS NULL AND j.state = 'queued' AND j.token = 0 AND j.n > :n
  AND EXISTS (SELECT 1 FROM job AS own WHERE own.n = :n AND own.handler = j.handler AND own.landed IS DISTINCT FROM 'maybe')
ORDER BY j.n DESC LIMIT 1

-- name: unpark_job
-- locks: jobs
UPDATE job SET parked_on = NULL, ready_at = :now WHERE n = :n

-- name: due_in_threads
SELECT n, thread_gate FROM job
WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now AND thread_gate IS NOT NULL
ORDER BY due_at LIMIT :limit

-- name: promote_job
-- locks: jobs
UPDATE job SET ready_at = due_at
WHERE n = :n AND state = 'queued' AND ready_at IS NULL AND parked_on IS NULL
