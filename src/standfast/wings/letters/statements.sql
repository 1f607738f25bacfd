-- Statements of letters. How they are written: store/statements.py.

-- columns: standfast.wings.letters.scripts.Mark
from job_row: n, token, id, queue, handler, fingerprint, failure, finished_at, replays

-- part: letter_filter
-- The filter of letters, except for their labels and for text searched in them.
(:queue::text IS NULL OR queue = :queue)
  AND (:reason_code::text IS NULL OR :reason_code IN (failure::json->>'reason_code', failure::json->>'cause'))
  AND (:cause::text IS NULL OR coalesce(failure::json->>'cause', failure::json->>'reason_code') = :cause)
  AND (:failure_class::text IS NULL OR failure::json->>'class' = :failure_class)
  AND (:landed::text IS NULL OR failure::json->>'landed' = :landed)
  AND (:replay_status::text IS NULL OR triage::json->>'replay_status' = :replay_status)
  AND (:fingerprint::text IS NULL OR fingerprint = :fingerprint)
  AND (:state::text IS NULL OR state = :state)
  AND (:error_kind::text IS NULL OR failure::json->>'error_kind' = :error_kind)
  AND (:session::text IS NULL OR details::json->>'session' = :session)
  AND (:thread_key::text IS NULL OR thread_key = :thread_key)
  AND (:finished_before::double precision IS NULL OR finished_at < :finished_before)
  AND (:finished_since::double precision IS NULL OR finished_at >= :finished_since)
  AND (:handler::text IS NULL OR handler = :handler)

-- part: letter_label
(:label IS NULL OR EXISTS (SELECT 1 FROM json_each(details, '$.labels') AS l
    WHERE l.key = :label AND (:label_value IS NULL OR l.value = :label_value)))

-- part: letter_label (postgres)
(:label::text IS NULL OR CASE WHEN :label_value::text IS NULL THEN details::json->'labels'->>:label IS NOT NULL
    ELSE details::json->'labels'->>:label = :label_value END)

-- part: letter_search
(:text IS NULL OR instr(id, :text) > 0 OR instr(thread_key, :text) > 0 OR instr(idempotency_key, :text) > 0
    OR instr(failure, :quoted) > 0 OR instr(CASE WHEN handler = 'http'
      THEN coalesce(payload->'$.url', '') || coalesce(payload->'$.body', '') ELSE payload END, :quoted) > 0)
  AND (:payload_path IS NULL OR (NOT :payload_hidden OR handler <> 'http')
    AND payload->:payload_path IN (:payload_text, :payload_literal))

-- part: letter_search (postgres)
(:text::text IS NULL OR strpos(id, :text) > 0 OR strpos(thread_key, :text) > 0 OR strpos(idempotency_key, :text) > 0
    OR strpos(failure, :quoted::text) > 0 OR strpos(CASE WHEN handler = 'http'
      THEN coalesce((payload::json->'url')::text, '') || coalesce((payload::json->'body')::text, '') ELSE payload END, :quoted) > 0)
  AND (:payload_keys::text IS NULL OR (NOT :payload_hidden::boolean OR handler <> 'http')
    AND (payload::json #> string_to_array(:payload_keys, chr(31)))::text IN (:payload_text::text, :payload_literal::text))

-- part: purgeable
-- Dead letters, and discarded ones that are not pruned yet; a held letter waits for its answer.
(state = 'dead' OR triage::json->>'replay_status' = 'discarded') AND pending IS NULL

-- name: count_replays
-- locks: jobs
UPDATE ending SET replays = replays + 1, fingerprint = NULL, replay_at = NULL, refused_under = NULL,
  triage = json_set(triage, '$.replay_status', 'replayed', '$.replay_at', NULL)
WHERE n IN :integers(numbers)

-- name: count_replays (postgres)
UPDATE ending SET replays = replays + 1, fingerprint = NULL, replay_at = NULL, refused_under = NULL,
  triage = (triage::jsonb || '{"replay_status": "replayed", "replay_at": null}')::text
WHERE n IN :integers(numbers)

-- name: mark_letter
-- locks: jobs
UPDATE ending SET replay_at = NULL, refused_under = NULL, triage = json_set(triage, '$.replay_status', :status, '$.owner', coalesce(:owner, triage->>'owner'), '$.replay_at', NULL)
WHERE n = :n

-- name: mark_letter (postgres)
UPDATE ending SET replay_at = NULL, refused_under = NULL,
  triage = (triage::jsonb || jsonb_build_object('replay_status', :status::text,
  'owner', coalesce(:owner::text, triage::jsonb->>'owner'), 'replay_at', NULL))::text
WHERE n = :n

-- name: amend_body
-- locks: jobs
UPDATE body SET payload = :payload, idempotency_key = :key::text, details = :details, generation = :generation WHERE n = :n

-- name: walk_letters
SELECT :columns(Mark) FROM job_row
WHERE state IN ('dead', 'held') AND finished_at IS NOT NULL AND n < :before AND n >= :above
  AND :part(letter_filter)
  AND :part(letter_label)
  AND :part(letter_search)
ORDER BY n DESC LIMIT :limit

-- name: stamp_fingerprints
-- locks: jobs
WITH fresh (n, token, fingerprint) AS (:rows(bigint, integer, text))
UPDATE ending SET fingerprint = fresh.fingerprint FROM fresh JOIN job ON job.n = fresh.n AND job.token = fresh.token
WHERE ending.n = fresh.n AND ending.fingerprint IS NULL

-- name: count_purgeable
SELECT count(*) FROM queue AS q CROSS JOIN job AS j ON j.queue = q.name AND j.state IN ('dead', 'cancelled') AND j.finished_at <= :until
JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
WHERE :part(purgeable)
  AND :part(letter_filter)
  AND :part(letter_label)

-- name: count_purgeable (postgres)
SELECT count(*) FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
WHERE j.state IN ('dead', 'cancelled') AND j.finished_at <= :until
  AND :part(purgeable)
  AND :part(letter_filter)
  AND :part(letter_label)

-- name: purgeable_letters
-- locks: jobs
SELECT j.n, b.id, j.queue
FROM queue AS q CROSS JOIN job AS j ON j.queue = q.name AND j.state IN ('dead', 'cancelled') AND j.finished_at <= :until
JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
WHERE :part(purgeable)
  AND :part(letter_filter)
  AND :part(letter_label)
LIMIT :limit

-- name: purgeable_letters (postgres)
-- They are found by the index of what has ended, queue by queue, and locked in the order of their numbers.
WITH found AS MATERIALIZED (
  SELECT j.n FROM queue AS q CROSS JOIN LATERAL (
    SELECT * FROM job WHERE job.queue = q.name AND job.state IN ('dead', 'cancelled') AND job.finished_at <= :until OFFSET 0) AS j
  JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
  WHERE :part(purgeable)
    AND :part(letter_filter)
    AND :part(letter_label)
  LIMIT :limit
)
SELECT j.n, b.id, j.queue FROM job AS j JOIN body AS b ON b.n = j.n
WHERE j.n = ANY (ARRAY(SELECT n FROM found)) AND j.state IN ('dead', 'cancelled') AND j.finished_at <= :until AND j.pending IS NULL
ORDER BY j.n FOR UPDATE OF j

-- name: old_letters
-- locks: jobs
-- waits: no
SELECT j.n, b.id, j.queue FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
WHERE j.queue = :queue AND j.state = 'dead' AND j.finished_at < :before AND e.triage::json->>'replay_status' IS DISTINCT FROM 'scheduled'
  AND j.pending IS NULL
ORDER BY j.finished_at LIMIT :limit FOR UPDATE OF j SKIP LOCKED

-- name: surplus_letters
-- locks: jobs
-- waits: no
-- All but the newest; each run walks past those that stay. A step is not surplus: it is deleted with its workflow.
SELECT j.n, b.id, j.queue FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
WHERE j.state = 'dead' AND e.triage::json->>'replay_status' IS DISTINCT FROM 'scheduled' AND j.n IN (
  SELECT n FROM job WHERE queue = :queue AND state = 'dead' AND finished_at IS NOT NULL AND pending IS NULL
  ORDER BY finished_at DESC, n DESC LIMIT :limit OFFSET :keep)
FOR UPDATE OF j SKIP LOCKED

-- name: keep_former_letters
-- locks: jobs
INSERT INTO former_letter (id, at)
SELECT b.id, :now::double precision FROM job AS j JOIN body AS b ON b.n = j.n JOIN ending AS e ON e.n = j.n
WHERE j.n IN :integers(numbers) AND j.state IN ('completed', 'cancelled') AND (e.replays > 0 OR e.triage IS NOT NULL)
ON CONFLICT (id) DO NOTHING

-- name: former_letters
SELECT id FROM former_letter WHERE id IN :texts(ids)

-- name: delete_former_letters
-- locks: jobs
DELETE FROM former_letter WHERE id IN (SELECT id FROM former_letter WHERE at < :before LIMIT :limit)

-- name: import_bodies
-- locks: jobs
INSERT INTO body (n, id, payload, idempotency_key, details, created_at, first_seen_at, thread_key, generation, coalesced) :rows(bigint, text, text, text, text, double precision, double precision, text, integer, text)

-- name: import_jobs
-- locks: jobs
WITH fresh (n, queue, handler, priority, entered_at, attempts, finished_at, landed, thread_gate) AS (
  :rows(bigint, text, text, integer, double precision, integer, double precision, text, text))
INSERT INTO job (n, queue, handler, priority, state, due_at, entered_at, attempts, round_start, token, finished_at, landed, thread_gate)
SELECT n, queue, handler, priority, 'dead', entered_at, entered_at, attempts, attempts, 1, finished_at, landed, thread_gate FROM fresh

-- name: import_endings
-- locks: jobs
INSERT INTO ending (n, failure, triage, replays, fingerprint) :rows(bigint, text, text, integer, text)

-- name: import_history
-- locks: jobs
INSERT INTO history (n, line, entry) :rows(bigint, integer, text)
