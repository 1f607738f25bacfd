-- Statements of redrives. How they are written: store/statements.py.

-- columns: standfast.wings.redrives.scripts.RedriveRow
from redrive: id, state, wanted, foreseen, snapshot, course, asked_by, reason, approval, note, episode, planned_at, started_at, ended_at,
  next_at

-- columns: standfast.wings.redrives.scripts.PlanRow
from redriven: place, n, token, generation, fate

-- name: insert_redrives
-- locks: redrives
INSERT INTO redrive (id, state, wanted, foreseen, snapshot, course, planned_at) :rows(text, text, text, text, text, text, double precision)
ON CONFLICT (id) DO NOTHING

-- name: insert_redriven
-- locks: redrives
INSERT INTO redriven (redrive, place, n, token, generation, fate) :rows(text, integer, bigint, integer, integer, text)
ON CONFLICT (redrive, place) DO NOTHING

-- name: redrive_by_id
SELECT :columns(RedriveRow) FROM redrive WHERE id = :id

-- name: list_redrives
SELECT :columns(RedriveRow) FROM redrive
WHERE state <> 'planned' ORDER BY started_at DESC, id LIMIT :limit

-- name: locked_redrive
-- locks: redrives
SELECT :columns(RedriveRow) FROM redrive WHERE id = :id FOR UPDATE

-- name: drifted_letters
SELECT b.id, j.state FROM redriven AS r LEFT JOIN job AS j ON j.n = r.n LEFT JOIN body AS b ON b.n = r.n
WHERE r.redrive = :redrive AND r.state = 'waiting'
  AND (j.n IS NULL OR j.token <> r.token OR b.generation <> r.generation OR j.state NOT IN ('dead', 'held'))
ORDER BY r.place

-- name: start_redrive
-- locks: redrives
UPDATE redrive SET state = :state, course = :course, asked_by = :by, reason = :reason, approval = :approval, started_at = :now
WHERE id = :id

-- name: end_denied
-- locks: redrives
UPDATE redriven SET state = 'ended', outcome = 'denied', at = :now WHERE redrive = :redrive AND fate = 'denied' AND state = 'waiting'

-- name: take_redrive
-- locks: redrives
-- waits: no
UPDATE redrive SET driver = :driver, driven_until = :until
WHERE id = (SELECT id FROM redrive WHERE state = 'running' AND id > :after AND (driven_until <= :now OR driver = :driver)
            ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING :columns(RedriveRow)

-- name: released_letters
SELECT r.place, j.state, e.triage::json->>'replay_status'
FROM redriven AS r LEFT JOIN job AS j ON j.n = r.n LEFT JOIN ending AS e ON e.n = r.n
WHERE r.redrive = :redrive AND r.state = 'released' ORDER BY r.place

-- name: mark_redriven
-- locks: redrives
WITH fresh (redrive, place, state, outcome, episode, at, source) AS (:rows(text, integer, text, text, integer, double precision, text))
UPDATE redriven SET state = fresh.state, outcome = fresh.outcome, episode = coalesce(fresh.episode, redriven.episode), at = fresh.at
FROM fresh WHERE redriven.redrive = fresh.redrive AND redriven.place = fresh.place AND redriven.state = fresh.source

-- name: failed_again
-- The letters of a redrive that stopped again, the last first, as far as they still exist.
SELECT b.id, j.queue, e.failure FROM redriven AS r JOIN job AS j ON j.n = r.n JOIN body AS b ON b.n = r.n LEFT JOIN ending AS e ON e.n = r.n
WHERE r.redrive = :redrive AND j.state IN ('dead', 'held')
  AND (r.state = 'ended' AND r.outcome = 'failed'
    OR r.state = 'released' AND coalesce(e.triage::json->>'replay_status', '') <> 'scheduled')
ORDER BY r.at DESC, r.place DESC LIMIT :limit

-- name: redrive_tally
SELECT state, outcome, episode, count(*) FROM redriven WHERE redrive = :redrive GROUP BY state, outcome, episode

-- name: recent_outcomes
SELECT outcome FROM redriven
WHERE redrive = :redrive AND episode = :episode AND state = 'ended' AND outcome IN ('completed', 'failed')
ORDER BY at DESC, place DESC LIMIT :limit

-- name: next_redriven
SELECT :columns(PlanRow) FROM redriven WHERE redrive = :redrive AND state = 'waiting' ORDER BY place LIMIT :limit

-- name: advance_redrive
-- locks: redrives
UPDATE redrive SET next_at = coalesce(:next_at::double precision, next_at), driven_until = :until
WHERE id = :id AND driver = :driver AND state = 'running'
RETURNING id

-- name: steer_redrive
-- locks: redrives
UPDATE redrive SET state = :target, note = :note::text, episode = episode + :again, ended_at = CASE WHEN :ends::boolean THEN :now ELSE ended_at END
WHERE id = :id AND state = :source AND (:driver::text IS NULL OR driver = :driver)
RETURNING id

-- name: driven_redrives
-- locks: redrives
-- A transaction that moves letters of these redrives keeps them running until its commit.
SELECT id, driver FROM redrive WHERE id IN :texts(ids) AND state = 'running'
ORDER BY id FOR UPDATE

-- name: void_plans_approval
-- locks: approvals
UPDATE approval SET state = 'void', answer = :why WHERE id = (SELECT approval FROM redrive WHERE id = :redrive) AND state IN ('pending', 'approved')
RETURNING id

-- name: fail_deleted
-- locks: redrives
-- Letters of redrives that are deleted after they stopped again.
UPDATE redriven SET state = 'ended', outcome = 'failed', at = :now
WHERE redrive IN (SELECT id FROM redrive WHERE state IN ('running', 'paused', 'halted', 'cancelled')) AND state = 'released'
  AND n IN :integers(numbers)

-- name: moved_on
SELECT j.n FROM job AS j WHERE j.n IN :integers(numbers) AND j.thread_gate IS NOT NULL AND (
  EXISTS (SELECT 1 FROM job AS k WHERE k.thread_gate = j.thread_gate AND k.n > j.n AND k.finished_at IS NULL)
  OR EXISTS (SELECT 1 FROM job AS k WHERE k.thread_gate = j.thread_gate AND k.n > j.n AND k.finished_at IS NOT NULL
             AND k.state = 'completed'))

-- name: old_redrives
-- locks: redrives
-- waits: no
SELECT id FROM redrive WHERE state = 'planned' AND planned_at < :plans_before OR ended_at < :ended_before
LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: delete_redriven
-- locks: redrives
-- Places have no gaps, and the lowest go first: a plan without place 0 is one that is being deleted.
DELETE FROM redriven
WHERE redrive = :redrive AND place < (SELECT min(place) FROM redriven WHERE redrive = :redrive) + :limit::bigint

-- name: delete_redrives
-- locks: redrives
DELETE FROM redrive WHERE id IN :texts(ids) AND NOT EXISTS (SELECT 1 FROM redriven WHERE redriven.redrive = redrive.id)

-- name: pause_redrives
-- locks: redrives
UPDATE redrive SET state = 'paused', note = :note WHERE state = 'running'

-- name: halted_redrives
SELECT id, note FROM redrive WHERE state = 'halted' ORDER BY started_at LIMIT :limit
