-- Statements of alerts. How they are written: store/statements.py.

-- columns: standfast.wings.alerts.words.LetterAlert
from alert: fingerprint, surfaces, sample, opened_at, number, told

-- columns: standfast.wings.alerts.words.OpenAlert
from c: id, kind, queue, subject, message, value, threshold, started_at, clear_since, ended_at, told

-- name: begin_at_end
-- locks: followers
INSERT INTO follower (name, seq)
SELECT value, (SELECT coalesce(max(seq), 0) FROM journal) FROM json_each(:names) WHERE true
ON CONFLICT (name) DO NOTHING

-- name: begin_at_end (postgres)
INSERT INTO follower (name, seq)
SELECT name, (SELECT coalesce(max(seq), 0) FROM journal) FROM jsonb_array_elements_text(:names::jsonb) AS name
ON CONFLICT (name) DO NOTHING

-- name: raise_alert
-- locks: alerts
INSERT INTO alert (fingerprint, surfaces, sample, opened_at, tell_at, number)
VALUES (:fingerprint, :surfaces, :sample, :now, :tell_at, :number::integer)
ON CONFLICT (fingerprint) DO UPDATE SET number = alert.number + excluded.number, surfaces = excluded.surfaces, sample = excluded.sample

-- name: due_alerts
SELECT :columns(LetterAlert) FROM alert WHERE tell_at <= :now ORDER BY tell_at LIMIT :limit

-- name: alert_told
-- locks: alerts
UPDATE alert SET told = :number, tell_at = :tell_at
WHERE fingerprint = :fingerprint AND told = :told AND tell_at <= :now
RETURNING fingerprint

-- name: close_alert
-- locks: alerts
DELETE FROM alert WHERE fingerprint = :fingerprint AND told = :told AND number = :told AND tell_at <= :now
RETURNING fingerprint

-- name: begin_condition
-- locks: alerts
INSERT INTO condition (id, kind, queue, subject, message, value, threshold, started_at)
VALUES (:id, :kind, :queue, :subject, :message, :value, :threshold, :now)
ON CONFLICT DO NOTHING
RETURNING id

-- name: renew_condition
-- locks: alerts
UPDATE condition SET message = :message, value = :value, threshold = :threshold, clear_since = NULL
WHERE id = :id AND ended_at IS NULL

-- name: clear_condition
-- locks: alerts
UPDATE condition SET clear_since = :now WHERE id = :id AND ended_at IS NULL AND clear_since IS NULL

-- name: end_condition
-- locks: alerts
UPDATE condition SET ended_at = :now WHERE id = :id AND ended_at IS NULL AND clear_since IS NOT NULL
RETURNING id

-- name: condition_told
-- locks: alerts
UPDATE condition SET told = :told WHERE id = :id AND told = :before
RETURNING id

-- name: note_pain
-- locks: alerts
-- Due, unless a signal was noted lately, or the job of the last one is unfinished, or ended lately.
INSERT INTO pain (kind, queue, subject, at, job) VALUES (:kind, :queue, :subject, :now, :job)
ON CONFLICT (kind, queue, subject) DO UPDATE SET at = excluded.at, job = excluded.job
WHERE pain.at <= :before AND NOT EXISTS (
  SELECT 1 FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = pain.job AND (j.state IN ('queued', 'running') OR j.finished_at > :before))
RETURNING kind

-- name: note_sink
-- locks: alerts
INSERT INTO sink (name, failing_since, failed_at, why) VALUES (:name, :now, :now, :why)
ON CONFLICT (name) DO UPDATE SET failed_at = excluded.failed_at, why = excluded.why

-- name: forget_sink
-- locks: alerts
DELETE FROM sink WHERE name = :name

-- name: open_conditions
SELECT :columns(OpenAlert) FROM condition AS c WHERE ended_at IS NULL AND kind IN :texts(kinds) ORDER BY started_at, id LIMIT :limit

-- name: untold_conditions
SELECT :columns(OpenAlert) FROM condition AS c WHERE told < 2 AND (told = 0 AND coalesce(ended_at, :now::double precision) > :since OR told = 1 AND ended_at IS NOT NULL)
  AND kind IN :texts(kinds)
ORDER BY started_at, id LIMIT :limit

-- name: hurting_conditions
SELECT :columns(OpenAlert)
FROM condition AS c LEFT JOIN pain AS p ON p.kind = c.kind AND p.queue = c.queue AND p.subject = c.subject
WHERE c.ended_at IS NULL AND c.clear_since IS NULL AND c.kind IN :texts(kinds)
  AND (p.at IS NULL OR p.at <= :before AND NOT EXISTS (
    SELECT 1 FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = p.job AND (j.state IN ('queued', 'running') OR j.finished_at > :before)))
ORDER BY c.started_at, c.id LIMIT :limit

-- name: failing_sinks
SELECT name, failing_since, why FROM sink ORDER BY name

-- name: delete_conditions
-- locks: alerts
DELETE FROM condition WHERE id IN (SELECT id FROM condition WHERE ended_at < :before LIMIT :limit)

-- name: delete_pains
-- locks: alerts
DELETE FROM pain WHERE (kind, queue, subject) IN (SELECT kind, queue, subject FROM pain WHERE at < :before LIMIT :limit)

-- name: delete_sinks
-- locks: alerts
DELETE FROM sink WHERE failed_at < :before
