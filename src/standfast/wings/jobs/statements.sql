-- Statements of jobs. How they are written: store/statements.py.

-- name: walk_jobs
SELECT n FROM job WHERE n < :before ORDER BY n DESC LIMIT :most

-- name: walk_session
SELECT b.n FROM body AS b
WHERE instr(b.details, '"session":') > 0 AND b.details->>'session' = :session AND b.n < :before ORDER BY b.n DESC LIMIT :most

-- name: walk_session (postgres)
-- The name is compared as JSON writes it: an index may not decode JSON, because the result of decoding could change.
SELECT b.n FROM body AS b
WHERE strpos(b.details, '"session":') > 0 AND substring(b.details FROM '"session":"((?:[^"\\]|\\.)*)"') = :quoted::text AND b.n < :before
ORDER BY b.n DESC LIMIT :most

-- name: walk_stopped
SELECT n FROM job WHERE state IN ('dead', 'held') AND n < :before ORDER BY n DESC LIMIT :most

-- name: walk_history
-- Only jobs to which something happened have lines.
SELECT n FROM history WHERE n < :before GROUP BY n ORDER BY n DESC LIMIT :most

-- name: walk_running
-- By the index of running jobs, of which there are few; its order is another.
SELECT n FROM job INDEXED BY job_running WHERE state = 'running' AND n < :before ORDER BY n DESC LIMIT :most

-- name: walk_running (postgres)
SELECT n FROM job WHERE state = 'running' AND n < :before ORDER BY n + 0 DESC LIMIT :most

-- name: matching_jobs
-- Those of the given jobs that match. `view` is lifecycle.view; a failure is the one in a job's way now, as its view shows it.
-- A caller limited to own jobs (`requester`) cannot use `q` to guess what other requesters brought into a job.
SELECT j.n FROM json_each(:numbers) AS a CROSS JOIN job AS j ON j.n = a.value CROSS JOIN body AS b ON b.n = j.n
  LEFT JOIN ending AS e ON e.n = j.n
WHERE (:queue IS NULL OR j.queue = :queue) AND (:state IS NULL OR j.state = :state)
  AND (:handler IS NULL OR j.handler = :handler)
  AND (:queues IS NULL OR j.queue IN :texts(queues))
  AND (:view IS NULL OR :view = CASE WHEN j.state <> 'queued' THEN j.state WHEN j.parked_on IS NOT NULL THEN 'parked'
    WHEN j.attempts > 0 THEN 'retry_pending' WHEN j.due_at > :now THEN 'scheduled' ELSE 'queued' END)
  AND (:session IS NULL OR b.details->>'session' = :session)
  AND (:requester IS NULL OR b.details->>'requester' = :requester
    OR EXISTS (SELECT 1 FROM json_each(b.details, '$.also_requested_by') AS r WHERE r.value = :requester))
  AND (:thread_key IS NULL OR b.thread_key = :thread_key)
  AND (:label IS NULL OR EXISTS (SELECT 1 FROM json_each(b.details, '$.labels') AS l
    WHERE l.key = :label AND (:label_value IS NULL OR l.value = :label_value)))
  AND (:possible_duplicate IS NULL OR :possible_duplicate = EXISTS (
    SELECT 1 FROM history AS h WHERE h.n = j.n AND h.entry->>'possible_duplicate'))
  AND (:reason_code IS NULL OR j.state NOT IN ('completed', 'cancelled') AND :reason_code IN (coalesce(
    CASE WHEN j.state IN ('dead', 'held') THEN e.failure END,
    (SELECT h.entry FROM history AS h WHERE h.n = j.n AND h.entry->>'class' IS NOT NULL ORDER BY h.line DESC LIMIT 1))->>'reason_code',
    CASE WHEN j.state IN ('dead', 'held') THEN e.failure->>'cause' END))
  AND (:error_kind IS NULL OR j.state NOT IN ('completed', 'cancelled') AND :error_kind = coalesce(
    CASE WHEN j.state IN ('dead', 'held') THEN e.failure END,
    (SELECT h.entry FROM history AS h WHERE h.n = j.n AND h.entry->>'class' IS NOT NULL ORDER BY h.line DESC LIMIT 1))->>'error_kind')
  AND (:q IS NULL OR instr(b.id, :q) > 0 OR instr(j.handler, :q) > 0 OR instr(b.thread_key, :q) > 0
    OR (:requester IS NULL OR b.details->>'$.also_requested_by[0]' IS NULL)
      AND (instr(b.idempotency_key, :q) > 0 OR instr(b.payload, :quoted) > 0 OR instr(e.failure, :quoted) > 0))

-- name: matching_jobs (postgres)
SELECT j.n FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
WHERE j.n IN :integers(numbers)
  AND (:queue::text IS NULL OR j.queue = :queue) AND (:state::text IS NULL OR j.state = :state)
  AND (:handler::text IS NULL OR j.handler = :handler)
  AND (:queues::text IS NULL OR j.queue IN :texts(queues))
  AND (:view::text IS NULL OR :view = CASE WHEN j.state <> 'queued' THEN j.state WHEN j.parked_on IS NOT NULL THEN 'parked'
    WHEN j.attempts > 0 THEN 'retry_pending' WHEN j.due_at > :now THEN 'scheduled' ELSE 'queued' END)
  AND (:session::text IS NULL OR b.details::json->>'session' = :session)
  AND (:requester::text IS NULL OR b.details::json->>'requester' = :requester
    OR EXISTS (SELECT 1 FROM json_array_elements_text(b.details::json->'also_requested_by') AS r WHERE r = :requester))
  AND (:thread_key::text IS NULL OR b.thread_key = :thread_key)
  AND (:label::text IS NULL OR CASE WHEN :label_value::text IS NULL THEN b.details::json->'labels'->>:label IS NOT NULL
    ELSE b.details::json->'labels'->>:label = :label_value END)
  AND (:possible_duplicate::integer IS NULL OR :possible_duplicate = EXISTS (
    SELECT 1 FROM history AS h WHERE h.n = j.n AND h.entry::json->>'possible_duplicate' = 'true')::integer)
  AND (:reason_code::text IS NULL OR j.state NOT IN ('completed', 'cancelled') AND :reason_code IN (coalesce(
    CASE WHEN j.state IN ('dead', 'held') THEN e.failure END,
    (SELECT h.entry FROM history AS h WHERE h.n = j.n AND h.entry::json->>'class' IS NOT NULL ORDER BY h.line DESC LIMIT 1))::json->>'reason_code',
    CASE WHEN j.state IN ('dead', 'held') THEN e.failure::json->>'cause' END))
  AND (:error_kind::text IS NULL OR j.state NOT IN ('completed', 'cancelled') AND :error_kind = coalesce(
    CASE WHEN j.state IN ('dead', 'held') THEN e.failure END,
    (SELECT h.entry FROM history AS h WHERE h.n = j.n AND h.entry::json->>'class' IS NOT NULL ORDER BY h.line DESC LIMIT 1))::json->>'error_kind')
  AND (:q::text IS NULL OR strpos(b.id, :q) > 0 OR strpos(j.handler, :q) > 0 OR strpos(b.thread_key, :q) > 0
    OR (:requester::text IS NULL OR b.details::json#>>'{also_requested_by,0}' IS NULL)
      AND (strpos(b.idempotency_key, :q) > 0 OR strpos(b.payload, :quoted::text) > 0 OR strpos(e.failure, :quoted) > 0))

-- name: holder_of_job
SELECT max(coalesce(w.beat_at, 0), j.claimed_at), j.lease, coalesce(w.boot, :boot) = :boot
FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker WHERE j.n = :n AND j.state = 'running'

-- name: holder_of_job (postgres)
SELECT greatest(coalesce(w.beat_at, 0), j.claimed_at), j.lease, coalesce(w.boot, :boot) = :boot
FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker WHERE j.n = :n AND j.state = 'running'

-- name: ask_to_stop
-- locks: jobs
UPDATE job SET cancelling = 1 WHERE n = (SELECT n FROM body WHERE id = :id) AND state = 'running' RETURNING n, queue, attempts

-- name: lock_running
-- locks: jobs
SELECT n FROM job WHERE n = :n AND token = :token AND state = 'running' FOR UPDATE

-- name: hurry_job
-- locks: jobs
UPDATE job SET due_at = min(due_at, :now), ready_at = :now
WHERE n = (SELECT n FROM body WHERE id = :id) AND state = 'queued' AND ready_at IS NULL AND parked_on IS NULL
RETURNING n, queue, thread_gate

-- name: hurry_job (postgres)
UPDATE job SET due_at = least(due_at, :now), ready_at = :now
WHERE n = (SELECT n FROM body WHERE id = :id) AND state = 'queued' AND ready_at IS NULL AND parked_on IS NULL
RETURNING n, queue, thread_gate

-- name: unwanted_numbers
SELECT n FROM job WHERE n IN :integers(numbers) AND cancelling = 1

-- name: job_ids_between
SELECT id FROM body WHERE id BETWEEN :low AND :high ORDER BY id LIMIT :most

-- name: workflow_ids_between
SELECT id FROM workflow WHERE id BETWEEN :low AND :high ORDER BY id LIMIT :most

-- name: approval_ids_between
SELECT id FROM approval WHERE id BETWEEN :low AND :high ORDER BY id LIMIT :most

-- name: redrive_ids_between
SELECT id FROM redrive WHERE id BETWEEN :low AND :high ORDER BY id LIMIT :most

-- name: nth_letter
-- The newest letter after a number of them.
SELECT n FROM job WHERE state IN ('dead', 'held') AND n < :before ORDER BY n DESC LIMIT 1 OFFSET :most

-- name: list_letters
SELECT :columns(JobRow) FROM job_row
WHERE state IN ('dead', 'held') AND finished_at IS NOT NULL AND n < :before AND n >= :above
  AND :part(letter_filter)
  AND :part(letter_label)
  AND :part(letter_search)
  AND (:queues::text IS NULL OR queue IN :texts(queues))
ORDER BY n DESC LIMIT :limit
