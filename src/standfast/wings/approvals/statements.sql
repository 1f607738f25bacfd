-- Statements of approvals. How they are written: store/statements.py.

-- columns: standfast.wings.approvals.words.Approval
from a: id, n, redrive, state, asked_by, reason, requesters, groups, bound, rule, asked_at, expires_at, answered_by, answered_at, answer
job: b.id
queue: j.queue

-- name: open_approvals
SELECT id, state, bound, expires_at, groups, requesters FROM approval WHERE n IN :integers(numbers) AND state IN ('pending', 'approved')

-- name: set_requesters
-- locks: approvals
UPDATE approval SET requesters = :requesters WHERE id = :id AND state = 'pending'

-- name: file_approvals
-- locks: approvals
INSERT INTO approval (id, n, redrive, state, asked_by, reason, requesters, groups, bound, rule, asked_at, expires_at) :rows(text, bigint, text, text, text, text, text, text, text, text, double precision, double precision)
ON CONFLICT DO NOTHING

-- name: approval_standings
-- locks: approvals
-- A decision based on these approvals locks them until its commit.
SELECT id, state FROM approval WHERE id IN :texts(ids) ORDER BY id FOR UPDATE

-- name: answer_approval
-- locks: approvals
UPDATE approval SET state = :target, answered_by = coalesce(:by::text, answered_by), answered_at = CASE WHEN :by::text IS NULL THEN answered_at ELSE :now END,
  answer = coalesce(:reason::text, answer)
WHERE id = :id AND state = :source
RETURNING id

-- name: void_approvals
-- locks: approvals
UPDATE approval SET state = 'void', answer = :why WHERE n IN :integers(numbers) AND state IN ('pending', 'approved') RETURNING n

-- name: set_replay_status
-- locks: jobs
UPDATE ending SET replay_at = NULL, refused_under = NULL, triage = json_set(triage, '$.replay_status', :status, '$.replay_at', NULL, '$.approval', :approval::text,
  '$.approver_group', coalesce(:groups->>0, triage->>'approver_group'),
  '$.approver_groups', json(coalesce(nullif(:groups, '[]'), triage->'approver_groups', '[]')))
WHERE n IN :integers(numbers)

-- name: set_replay_status (postgres)
UPDATE ending SET replay_at = NULL, refused_under = NULL,
  triage = (triage::jsonb || jsonb_build_object('replay_status', :status::text, 'replay_at', NULL, 'approval', :approval::text,
  'approver_group', coalesce(:groups::jsonb->>0, triage::jsonb->>'approver_group'),
  'approver_groups', coalesce(nullif(:groups::jsonb, '[]'), triage::jsonb->'approver_groups', '[]')))::text
WHERE n IN :integers(numbers)

-- name: approval_by_id
SELECT :columns(Approval)
FROM approval AS a LEFT JOIN body AS b ON b.n = a.n LEFT JOIN job AS j ON j.n = a.n WHERE a.id = :id

-- name: list_approvals
SELECT :columns(Approval)
FROM approval AS a LEFT JOIN body AS b ON b.n = a.n LEFT JOIN job AS j ON j.n = a.n
WHERE (:state::text IS NULL OR a.state = :state)
  AND (:queues::text IS NULL OR j.queue IN :texts(queues))
ORDER BY a.asked_at DESC, a.id LIMIT :limit

-- name: due_approvals
-- Approvals that were not answered in time, and approved ones whose replay has not started.
SELECT :columns(Approval)
FROM approval AS a LEFT JOIN body AS b ON b.n = a.n LEFT JOIN job AS j ON j.n = a.n
WHERE a.id IN (SELECT id FROM approval WHERE state = 'pending' AND expires_at <= :now
  UNION ALL SELECT id FROM approval WHERE state = 'approved' AND answered_at <= :before)
LIMIT :limit

-- name: standing_business
SELECT EXISTS (SELECT 1 FROM redrive WHERE state = 'running'), EXISTS (SELECT 1 FROM consent_ask),
  EXISTS (SELECT 1 FROM approval WHERE state = 'pending' AND expires_at <= :now)
  OR EXISTS (SELECT 1 FROM approval WHERE state = 'approved' AND answered_at <= :before),
  coalesce((SELECT min(replay_at) FROM ending WHERE replay_at IS NOT NULL) <= :now, false)
  OR coalesce((SELECT min(refused_under) FROM ending WHERE refused_under IS NOT NULL) <> coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in'), false)
  OR coalesce((SELECT max(refused_under) FROM ending WHERE refused_under IS NOT NULL) <> coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in'), false)

-- name: delete_approvals
-- locks: approvals
-- The decisions stay in the audit.
DELETE FROM approval WHERE id IN (
  SELECT id FROM approval WHERE state NOT IN ('pending', 'approved') AND coalesce(answered_at, expires_at) < :ended_before LIMIT :limit)
