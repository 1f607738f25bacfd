-- Statements of policy. How they are written: store/statements.py.

-- columns: standfast.wings.policy.scripts.StoredPolicy
from policy: snapshot, source, text, rules, published_by, published_at, problem, problem_at

-- name: policy_row
SELECT :columns(StoredPolicy) FROM policy

-- name: lock_policy
-- locks: policy
-- There is one writer at a time.
SELECT :columns(StoredPolicy) FROM policy FOR UPDATE

-- name: policy_mark
SELECT coalesce(snapshot, 'broken: ' || problem) FROM policy

-- name: replay_modes
SELECT queue, name, replay_mode FROM handler

-- name: hold_policy
-- locks: policy
-- A decision under a policy is written before another policy comes into force, or not at all.
SELECT coalesce(snapshot, 'broken') FROM policy FOR SHARE

-- name: write_policy
-- locks: policy
-- changes: rules
INSERT INTO policy (only_one, snapshot, source, text, rules, published_by, published_at)
VALUES (1, :snapshot, :source, :text, :rules, :by, :now)
ON CONFLICT (only_one) DO UPDATE
SET snapshot = excluded.snapshot, source = excluded.source, text = excluded.text, rules = excluded.rules,
  published_by = excluded.published_by, published_at = excluded.published_at, problem = NULL, problem_at = NULL

-- name: write_policy_problem
-- locks: policy
-- changes: rules
INSERT INTO policy (only_one, problem, problem_at) VALUES (1, :problem, :now)
ON CONFLICT (only_one) DO UPDATE SET problem = excluded.problem, problem_at = excluded.problem_at

-- name: due_replays
-- Letters whose time has come, and letters refused by a policy other than the one in force.
SELECT e.n FROM ending AS e JOIN job AS j ON j.n = e.n
WHERE e.replay_at <= :now AND j.state IN ('dead', 'held') AND e.triage::json->>'replay_status' = 'scheduled'
UNION ALL
SELECT e.n FROM ending AS e JOIN job AS j ON j.n = e.n
WHERE e.refused_under < coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in') AND j.state IN ('dead', 'held')
  AND e.triage::json->>'replay_status' IN ('denied', 'pending_review')
UNION ALL
SELECT e.n FROM ending AS e JOIN job AS j ON j.n = e.n
WHERE e.refused_under > coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in') AND j.state IN ('dead', 'held')
  AND e.triage::json->>'replay_status' IN ('denied', 'pending_review')
LIMIT :limit

-- name: idle_replays
-- locks: jobs
-- waits: no
-- Due replays of jobs that are no longer letters waiting for them.
UPDATE ending SET replay_at = NULL, refused_under = NULL WHERE n IN (
  SELECT e.n FROM ending AS e LEFT JOIN job AS j ON j.n = e.n
  WHERE e.replay_at <= :now AND (j.n IS NULL OR j.state NOT IN ('dead', 'held') OR e.triage->>'replay_status' <> 'scheduled')
  UNION ALL
  SELECT e.n FROM ending AS e LEFT JOIN job AS j ON j.n = e.n
  WHERE e.refused_under < coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in')
    AND (j.n IS NULL OR j.state NOT IN ('dead', 'held') OR e.triage->>'replay_status' NOT IN ('denied', 'pending_review'))
  UNION ALL
  SELECT e.n FROM ending AS e LEFT JOIN job AS j ON j.n = e.n
  WHERE e.refused_under > coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in')
    AND (j.n IS NULL OR j.state NOT IN ('dead', 'held') OR e.triage->>'replay_status' NOT IN ('denied', 'pending_review'))
  LIMIT :limit)

-- name: idle_replays (postgres)
-- Locked ones are left to the next look. Each part reads the index of its own column: joined by OR they would walk all that ever ended.
WITH stored AS MATERIALIZED (
  SELECT coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in') AS snapshot
), due AS MATERIALIZED (
  SELECT e.n FROM ending AS e
  WHERE e.replay_at <= :now
    AND (e.triage::json->>'replay_status' <> 'scheduled' OR coalesce((SELECT j.state FROM job AS j WHERE j.n = e.n), '') NOT IN ('dead', 'held'))
  LIMIT :limit FOR UPDATE OF e SKIP LOCKED
), older AS MATERIALIZED (
  SELECT e.n FROM ending AS e
  WHERE e.refused_under < (SELECT snapshot FROM stored)
    AND (e.triage::json->>'replay_status' NOT IN ('denied', 'pending_review')
      OR coalesce((SELECT j.state FROM job AS j WHERE j.n = e.n), '') NOT IN ('dead', 'held'))
  LIMIT :limit FOR UPDATE OF e SKIP LOCKED
), newer AS MATERIALIZED (
  SELECT e.n FROM ending AS e
  WHERE e.refused_under > (SELECT snapshot FROM stored)
    AND (e.triage::json->>'replay_status' NOT IN ('denied', 'pending_review')
      OR coalesce((SELECT j.state FROM job AS j WHERE j.n = e.n), '') NOT IN ('dead', 'held'))
  LIMIT :limit FOR UPDATE OF e SKIP LOCKED
)
UPDATE ending SET replay_at = NULL, refused_under = NULL
WHERE n IN (SELECT n FROM due UNION ALL SELECT n FROM older UNION ALL SELECT n FROM newer)

-- name: refuse_replays
-- locks: jobs
-- A refusal is news unless the letter's last one was the same. Only letters with an automatic replay are asked about again.
UPDATE ending SET refused_at = :now, replay_at = NULL, refused_under = iif(triage->>'action' = 'auto_replay', :snapshot, NULL),
  triage = json_set(triage, '$.replay_status', :status, '$.replay_at', NULL)
WHERE n = :n
RETURNING refused_at

-- name: refuse_replays (postgres)
UPDATE ending SET refused_at = :now, replay_at = NULL,
  refused_under = CASE WHEN triage::json->>'action' = 'auto_replay' THEN :snapshot::text END,
  triage = (triage::jsonb || jsonb_build_object('replay_status', :status::text, 'replay_at', NULL))::text
WHERE n = :n
RETURNING refused_at

-- name: last_refusal
SELECT triage::json->>'replay_status', refused_under, refused_at FROM ending WHERE n = :n
