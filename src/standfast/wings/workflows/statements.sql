-- Statements of workflows. How they are written: store/statements.py.

-- columns: standfast.wings.workflows.graphs.WorkflowRow
from workflow: id, name, state, first_n, last_n, total, unfinished, stopped, dropped, created_at, finished_at

-- columns: standfast.wings.workflows.graphs.StepRow
from j: n, queue, handler, state, attempts, due_at, parked_on, pending, finished_at
from b: id, parents
name: b.step
size: octet_length(g.result)
result: CASE WHEN octet_length(g.result) <= :most THEN g.result END
failure: g.failure
warning: g.warning

-- name: insert_workflows
-- locks: workflows
-- A start that is repeated after an unknown commit is already stored: its id says so.
INSERT INTO workflow (id, name, state, first_n, last_n, total, unfinished, queues, created_at) :rows(text, text, text, bigint, bigint, integer, integer, text, double precision)
ON CONFLICT (id) DO NOTHING

-- name: insert_step_bodies
-- locks: jobs
-- answers: none
INSERT INTO body (n, id, payload, details, created_at, workflow, step, parents, children) :rows(bigint, text, text, text, double precision, text, text, text, text)

-- name: insert_step_jobs
-- locks: jobs
-- answers: none
INSERT INTO job (n, queue, handler, priority, state, due_at, ready_at, entered_at, budget, asked_lease, asked_expiry, expires_at,
  pending) :rows(bigint, text, text, integer, text, double precision, double precision, double precision, integer, double precision, double precision, double precision, integer)

-- name: count_parents_down
-- locks: jobs
-- The number of steps before each of these that completed. With the last one, a step enters its queue, and its age counts from then.
-- A step that was cancelled meanwhile stays cancelled.
UPDATE job SET pending = pending - :completed,
  state = iif(pending = :completed AND state = 'waiting', 'queued', state),
  due_at = iif(pending = :completed AND state = 'waiting', max(due_at, :now), due_at),
  ready_at = iif(pending = :completed AND state = 'waiting' AND due_at <= :now, :now, ready_at),
  entered_at = iif(pending = :completed, :now, entered_at),
  expires_at = iif(pending = :completed, nullif(min(coalesce(asked_expiry, 9e99),
    coalesce(:now + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue), 9e99)), 9e99), expires_at)
WHERE n IN :integers(numbers)
RETURNING n, pending, state, token, queue, due_at, iif(pending = 0, (SELECT id FROM body WHERE body.n = job.n), NULL)

-- name: count_parents_down (postgres)
-- The rows are locked: of two transactions that complete the last two parents, the second one sees what the first has counted.
UPDATE job SET pending = pending - :completed,
  state = CASE WHEN pending = :completed AND state = 'waiting' THEN 'queued' ELSE state END,
  due_at = CASE WHEN pending = :completed AND state = 'waiting' THEN greatest(due_at, :now) ELSE due_at END,
  ready_at = CASE WHEN pending = :completed AND state = 'waiting' AND due_at <= :now THEN :now ELSE ready_at END,
  entered_at = CASE WHEN pending = :completed THEN :now ELSE entered_at END,
  expires_at = CASE WHEN pending = :completed
    THEN least(asked_expiry, :now + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue)) ELSE expires_at END
WHERE n IN :integers(numbers)
RETURNING n, pending, state, token, queue, due_at, CASE WHEN pending = 0 THEN (SELECT id FROM body WHERE body.n = job.n) END

-- name: waiting_behind
-- The steps that wait for any of these, directly or through other waiting steps.
WITH RECURSIVE behind (n) AS (
  SELECT c.value FROM json_each(:numbers) AS e CROSS JOIN body AS b ON b.n = e.value CROSS JOIN json_each(b.children) AS c
    CROSS JOIN job AS j ON j.n = c.value AND j.state = 'waiting'
  UNION
  SELECT c.value FROM behind CROSS JOIN body AS b ON b.n = behind.n CROSS JOIN json_each(b.children) AS c
    CROSS JOIN job AS j ON j.n = c.value AND j.state = 'waiting'
)
SELECT j.n, j.token, b.id, j.queue FROM behind CROSS JOIN job AS j ON j.n = behind.n CROSS JOIN body AS b ON b.n = j.n

-- name: waiting_behind (postgres)
WITH RECURSIVE behind (n) AS (
  SELECT j.n FROM body AS b CROSS JOIN LATERAL jsonb_array_elements_text(b.children::jsonb) AS c
    JOIN job AS j ON j.n = c::bigint AND j.state = 'waiting'
  WHERE b.n IN :integers(numbers)
  UNION
  SELECT j.n FROM behind JOIN body AS b ON b.n = behind.n CROSS JOIN LATERAL jsonb_array_elements_text(b.children::jsonb) AS c
    JOIN job AS j ON j.n = c::bigint AND j.state = 'waiting'
)
SELECT j.n, j.token, b.id, j.queue FROM behind JOIN job AS j ON j.n = behind.n JOIN body AS b ON b.n = j.n ORDER BY j.n

-- name: tally_workflows
-- locks: workflows
UPDATE workflow SET unfinished = unfinished + (e.value->>1), stopped = stopped + (e.value->>2), dropped = dropped + (e.value->>3)
FROM json_each(:tallies) AS e WHERE workflow.id = e.value->>0
RETURNING id, state, unfinished, stopped, dropped

-- name: tally_workflows (postgres)
-- Locked in the order of their ids, after every job.
WITH locked AS MATERIALIZED (
  SELECT id FROM workflow WHERE id = ANY (ARRAY(SELECT e->>0 FROM jsonb_array_elements(:tallies::jsonb) AS e)) ORDER BY id FOR UPDATE
)
UPDATE workflow SET unfinished = unfinished + (e->>1)::integer, stopped = stopped + (e->>2)::integer, dropped = dropped + (e->>3)::integer
FROM jsonb_array_elements(:tallies::jsonb) AS e JOIN locked ON locked.id = e->>0 WHERE workflow.id = e->>0
RETURNING workflow.id, state, unfinished, stopped, dropped

-- name: set_progress
-- locks: workflows
UPDATE workflow SET state = :state WHERE id = :id

-- name: end_workflow
-- locks: workflows
-- Its steps are kept as long as the longest retention of its queues; for good if one of these queues keeps jobs for good.
UPDATE workflow SET state = :state, finished_at = :now, kept_until = :now + (
  SELECT iif(count(*) = count(keep), max(keep), NULL) FROM (
    SELECT iif(q.rules IS NULL, :keep_completed, q.rules->>'keep_completed') AS keep
    FROM json_each(workflow.queues) AS e LEFT JOIN queue AS q ON q.name = e.value))
WHERE id = :id

-- name: end_workflow (postgres)
UPDATE workflow SET state = :state, finished_at = :now, kept_until = :now + (
  SELECT CASE WHEN count(*) = count(keep) THEN max(keep) END FROM (
    SELECT CASE WHEN q.rules IS NULL THEN :keep_completed ELSE (q.rules::json->>'keep_completed')::double precision END AS keep
    FROM jsonb_array_elements_text(workflow.queues::jsonb) AS e LEFT JOIN queue AS q ON q.name = e) AS kept)
WHERE id = :id

-- name: release_workflow_key
-- locks: keys
UPDATE idempotency SET until = :now::double precision + :keep_keys::double precision WHERE until IS NULL AND id = :id

-- name: parents_of
-- The steps before the claimed ones, each once, with the steps behind it, and its result up to a limit of bytes over all.
SELECT p.n, p.step, p.whose, p.size, CASE WHEN p.sum <= :most THEN (SELECT result FROM ending WHERE ending.n = p.n) END FROM (
  SELECT q.n, b.step, q.whose, g.size, sum(coalesce(g.size, 0)) OVER (ORDER BY q.n) AS sum FROM (
    SELECT a.value AS n, json_group_array(e.value) AS whose
    FROM json_each(:numbers) AS e CROSS JOIN body AS b ON b.n = e.value CROSS JOIN json_each(b.parents) AS a GROUP BY a.value
  ) AS q CROSS JOIN body AS b ON b.n = q.n LEFT JOIN (SELECT n, octet_length(result) AS size FROM ending) AS g ON g.n = q.n
) AS p ORDER BY p.n

-- name: parents_of (postgres)
SELECT p.n, p.step, p.whose, p.size, CASE WHEN p.sum <= :most THEN (SELECT result FROM ending WHERE ending.n = p.n) END FROM (
  SELECT q.n, b.step, q.whose, octet_length(g.result) AS size, sum(coalesce(octet_length(g.result), 0)) OVER (ORDER BY q.n) AS sum FROM (
    SELECT a::bigint AS n, json_agg(b.n)::text AS whose
    FROM body AS b CROSS JOIN LATERAL jsonb_array_elements_text(b.parents::jsonb) AS a
    WHERE b.n IN :integers(numbers) GROUP BY a::bigint
  ) AS q JOIN body AS b ON b.n = q.n LEFT JOIN ending AS g ON g.n = q.n
) AS p ORDER BY p.n

-- name: result_of_step
SELECT result FROM ending WHERE n = :n

-- name: waits_for
-- What waiting steps wait for in the end: the steps before them that are neither final nor waiting themselves.
WITH RECURSIVE above (n, at) AS (
  SELECT value, value FROM json_each(:numbers)
  UNION
  SELECT above.n, p.value FROM above CROSS JOIN job AS j ON j.n = above.at AND j.state = 'waiting'
    CROSS JOIN body AS b ON b.n = j.n CROSS JOIN json_each(b.parents) AS p
  LIMIT :most
)
SELECT above.n, b.step, j.state, g.failure FROM above
CROSS JOIN job AS j ON j.n = above.at AND j.state IN ('queued', 'running', 'dead', 'held') AND above.at <> above.n
CROSS JOIN body AS b ON b.n = j.n LEFT JOIN ending AS g ON g.n = j.n
ORDER BY above.n, j.state NOT IN ('dead', 'held'), j.n LIMIT :most

-- name: waits_for (postgres)
WITH RECURSIVE above (n, at) AS (
  SELECT n::bigint, n::bigint FROM jsonb_array_elements_text(:numbers::jsonb) AS n
  UNION
  SELECT above.n, p::bigint FROM above JOIN job AS j ON j.n = above.at AND j.state = 'waiting'
    JOIN body AS b ON b.n = j.n CROSS JOIN LATERAL jsonb_array_elements_text(b.parents::jsonb) AS p
)
SELECT above.n, b.step, j.state, g.failure FROM (SELECT n, at FROM above LIMIT :most) AS above
JOIN job AS j ON j.n = above.at AND j.state IN ('queued', 'running', 'dead', 'held') AND above.at <> above.n
JOIN body AS b ON b.n = j.n LEFT JOIN ending AS g ON g.n = j.n
ORDER BY above.n, j.state NOT IN ('dead', 'held'), j.n LIMIT :most

-- name: workflow_by_id
SELECT :columns(WorkflowRow) FROM workflow WHERE id = :id

-- name: list_workflows
SELECT :columns(WorkflowRow) FROM workflow
WHERE id < :before AND (:state::text IS NULL OR state = :state) ORDER BY id DESC LIMIT :limit

-- name: stuck_workflows
SELECT id, name, stopped, unfinished FROM workflow WHERE finished_at IS NULL AND state = 'stuck' ORDER BY id LIMIT :limit

-- name: steps_of_workflow
-- A result above the limit of bytes is not read.
SELECT :columns(StepRow)
FROM body AS b CROSS JOIN job AS j ON j.n = b.n LEFT JOIN ending AS g ON g.n = b.n
WHERE b.n > :after AND b.n <= :last AND b.workflow = :id ORDER BY b.n LIMIT :limit

-- name: steps_of_workflow (postgres)
SELECT :columns(StepRow)
FROM body AS b JOIN job AS j ON j.n = b.n LEFT JOIN ending AS g ON g.n = b.n
WHERE b.n > :after AND b.n <= :last AND b.workflow = :id ORDER BY b.n LIMIT :limit

-- name: unfinished_steps
-- locks: jobs
SELECT j.n, j.token, b.id, j.queue, j.state, j.attempts FROM body AS b CROSS JOIN job AS j ON j.n = b.n
WHERE b.n >= :first AND b.n <= :last AND b.workflow = :id AND j.state NOT IN ('completed', 'cancelled') ORDER BY b.n

-- name: unfinished_steps (postgres)
SELECT j.n, j.token, b.id, j.queue, j.state, j.attempts FROM body AS b JOIN job AS j ON j.n = b.n
WHERE b.n >= :first AND b.n <= :last AND b.workflow = :id AND j.state NOT IN ('completed', 'cancelled') ORDER BY b.n FOR UPDATE OF j

-- name: ask_all_to_stop
-- locks: jobs
UPDATE job SET cancelling = 1 WHERE n IN :integers(numbers)

-- name: recount_workflows
-- locks: workflows
-- Run after steps were moved in bulk, not one by one.
UPDATE workflow SET unfinished = c.unfinished, stopped = c.stopped, dropped = c.dropped,
  state = CASE WHEN c.stopped > 0 THEN 'stuck' ELSE 'running' END
FROM (
  SELECT w.id, sum(j.state NOT IN ('completed', 'cancelled')) AS unfinished, sum(j.state IN ('dead', 'held')) AS stopped,
    sum(j.state = 'cancelled') AS dropped
  FROM workflow AS w CROSS JOIN body AS b ON b.n >= w.first_n AND b.n <= w.last_n AND b.workflow = w.id CROSS JOIN job AS j ON j.n = b.n
  WHERE w.finished_at IS NULL GROUP BY w.id
) AS c WHERE workflow.id = c.id AND c.unfinished > 0

-- name: recount_workflows (postgres)
UPDATE workflow SET unfinished = c.unfinished, stopped = c.stopped, dropped = c.dropped,
  state = CASE WHEN c.stopped > 0 THEN 'stuck' ELSE 'running' END
FROM (
  SELECT w.id, count(*) FILTER (WHERE j.state NOT IN ('completed', 'cancelled')) AS unfinished,
    count(*) FILTER (WHERE j.state IN ('dead', 'held')) AS stopped, count(*) FILTER (WHERE j.state = 'cancelled') AS dropped
  FROM workflow AS w JOIN body AS b ON b.n >= w.first_n AND b.n <= w.last_n AND b.workflow = w.id JOIN job AS j ON j.n = b.n
  WHERE w.finished_at IS NULL GROUP BY w.id
) AS c WHERE workflow.id = c.id AND c.unfinished > 0

-- name: prunable_workflows
SELECT id, first_n, last_n, total FROM workflow WHERE kept_until IS NOT NULL AND kept_until < :now ORDER BY kept_until LIMIT :limit

-- name: numbers_of_steps
SELECT json_group_array(n) FROM body WHERE n >= :first AND n <= :last AND workflow = :id

-- name: numbers_of_steps (postgres)
SELECT coalesce(json_agg(n), '[]')::text FROM body WHERE n >= :first AND n <= :last AND workflow = :id

-- name: delete_workflows
-- locks: workflows
DELETE FROM workflow WHERE id IN :texts(ids)
