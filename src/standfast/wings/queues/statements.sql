-- Statements of queues. How they are written: store/statements.py.

-- name: lock_queue (postgres only)
-- locks: queues
-- SQLite has one writer at a time.
SELECT 1 FROM queue WHERE name = :queue FOR UPDATE

-- name: known_queues
-- remembered: yes
-- assumes: same
SELECT name, priority, max_age, max_depth FROM queue WHERE name IN :texts(queues)

-- name: ensure_queues
-- locks: queues
-- changes: rules
INSERT INTO queue (name)
SELECT value FROM json_each(:queues) WHERE true
ON CONFLICT (name) DO NOTHING

-- name: ensure_queues (postgres)
INSERT INTO queue (name)
SELECT value FROM jsonb_array_elements_text(:queues::jsonb) ORDER BY value
ON CONFLICT (name) DO NOTHING

-- name: lock_layers
-- locks: queues
SELECT name, rules, declared, overlay FROM queue WHERE name IN :texts(queues)
ORDER BY name FOR UPDATE

-- name: write_layers
-- locks: queues
-- changes: rules
UPDATE queue SET declared = e.value->>'declared', overlay = e.value->>'overlay' FROM json_each(:layers) AS e WHERE queue.name = e.key

-- name: write_layers (postgres)
UPDATE queue SET declared = e.value->>'declared', overlay = e.value->>'overlay' FROM jsonb_each(:layers::jsonb) AS e WHERE queue.name = e.key

-- name: changed_ages
SELECT e.key FROM json_each(:queues) AS e JOIN queue AS q ON q.name = e.key
WHERE q.max_age IS NOT CAST(e.value->>'max_age' AS REAL)

-- name: changed_ages (postgres)
SELECT e.key FROM jsonb_each(:queues::jsonb) AS e JOIN queue AS q ON q.name = e.key
WHERE q.max_age IS DISTINCT FROM (e.value->>'max_age')::double precision

-- name: publish_queues
-- locks: queues
-- changes: rules
INSERT INTO queue (name, rules, priority, max_age, max_depth, declared_at)
SELECT e.key, e.value, e.value->>'priority', CAST(e.value->>'max_age' AS REAL), e.value->>'max_depth', :now
FROM json_each(:queues) AS e WHERE true
ON CONFLICT (name) DO UPDATE
SET rules = excluded.rules, priority = excluded.priority, max_age = excluded.max_age, max_depth = excluded.max_depth,
  declared_at = excluded.declared_at
WHERE queue.rules IS NOT excluded.rules

-- name: publish_queues (postgres)
INSERT INTO queue (name, rules, priority, max_age, max_depth, declared_at)
SELECT e.key, e.value::text, (e.value->>'priority')::integer, (e.value->>'max_age')::double precision,
  (e.value->>'max_depth')::integer, :now
FROM json_each(:queues::json) AS e ORDER BY e.key
ON CONFLICT (name) DO UPDATE
SET rules = excluded.rules, priority = excluded.priority, max_age = excluded.max_age, max_depth = excluded.max_depth,
  declared_at = excluded.declared_at
WHERE queue.rules IS DISTINCT FROM excluded.rules

-- name: age_marks
-- locks: upkeep
-- waits: no
-- Locked before any job: a process that publishes other rules meanwhile waits, and marks again.
SELECT name FROM upkeep WHERE name LIKE 'age %' ORDER BY name FOR UPDATE SKIP LOCKED

-- name: numbers_behind
SELECT max(n), count(*) FROM (SELECT n FROM job WHERE n > :after ORDER BY n LIMIT :limit) AS bite

-- name: restamp_expiry
-- locks: jobs
-- waits: no
-- The last published rules are in force, also for waiting jobs.
UPDATE job SET expires_at = nullif(min(coalesce(asked_expiry, 9e99), coalesce(entered_at + q.max_age, 9e99)), 9e99)
FROM queue AS q
WHERE q.name = :queue AND job.queue = :queue AND job.n > :after AND job.n <= :last AND job.state IN ('queued', 'running')

-- name: restamp_expiry (postgres)
-- The last published rules are in force, also for waiting jobs. A transaction that holds a job may also hold others of its
-- thread, and waits for none of them: nor does this one.
WITH waiting AS MATERIALIZED (
  SELECT n FROM job WHERE n > :after AND n <= :last AND queue = :queue AND state IN ('queued', 'running') FOR UPDATE SKIP LOCKED
)
UPDATE job SET expires_at = least(asked_expiry, entered_at + (SELECT max_age FROM queue WHERE name = :queue))
FROM waiting WHERE job.n = waiting.n

-- name: unstamped (postgres only)
-- With SQLite's single writer no job is left.
SELECT EXISTS (
  SELECT 1 FROM job WHERE n > :after AND n <= :last AND queue = :queue AND state IN ('queued', 'running')
    AND expires_at IS DISTINCT FROM least(asked_expiry, entered_at + (SELECT max_age FROM queue WHERE name = :queue)))

-- name: publish_handlers
-- locks: queues
-- changes: rules
INSERT INTO handler (queue, name, replay_mode, risk, timeout, declared_at, consent, when_landed)
SELECT e.value->>'queue', e.value->>'name', e.value->>'replay_mode', e.value->>'risk', CAST(e.value->>'timeout' AS REAL), :now,
  coalesce(e.value->>'consent', 0), e.value->>'when_landed'
FROM json_each(:handlers) AS e WHERE true
ON CONFLICT (queue, name) DO UPDATE
SET replay_mode = excluded.replay_mode, risk = excluded.risk, timeout = excluded.timeout, declared_at = excluded.declared_at,
  consent = excluded.consent, when_landed = excluded.when_landed

-- name: publish_handlers (postgres)
INSERT INTO handler (queue, name, replay_mode, risk, timeout, declared_at, consent, when_landed)
SELECT r->>'queue', r->>'name', r->>'replay_mode', r->>'risk', (r->>'timeout')::double precision, :now,
  coalesce((r->>'consent')::boolean, false)::integer, r->>'when_landed'
FROM jsonb_array_elements(:handlers::jsonb) AS r ORDER BY r->>'queue', r->>'name'
ON CONFLICT (queue, name) DO UPDATE
SET replay_mode = excluded.replay_mode, risk = excluded.risk, timeout = excluded.timeout, declared_at = excluded.declared_at,
  consent = excluded.consent, when_landed = excluded.when_landed

-- name: publish_cards
-- locks: queues
INSERT INTO handler_card (queue, name, description, input_schema, effects) :rows(text, text, text, text, text)
ON CONFLICT (queue, name) DO UPDATE
SET description = excluded.description, input_schema = excluded.input_schema, effects = excluded.effects

-- name: handler_cards
SELECT queue, name, description, input_schema, effects FROM handler_card

-- name: published_handlers
-- Handlers published by an older library version have no card.
SELECT h.queue, h.name, h.replay_mode, h.risk, h.consent, coalesce(c.description, ''), c.input_schema, coalesce(c.effects, '[]')
FROM handler AS h LEFT JOIN handler_card AS c ON c.queue = h.queue AND c.name = h.name ORDER BY h.queue, h.name

-- name: published_rules
SELECT q.rules FROM queue AS q
WHERE q.name = :queue AND (q.rules IS NOT NULL OR EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name))

-- name: list_handlers
SELECT queue, name, replay_mode, risk, timeout, consent, when_landed FROM handler ORDER BY queue, name

-- name: queue_names
SELECT name FROM queue

-- name: forget_queues
-- locks: queues
-- changes: rules
-- Undeclared queues that have been empty and idle for a while. Jobs that are neither ready nor ended have no index by
-- queue: if there are many of them, no queue is forgotten.
DELETE FROM queue WHERE name IN (
  SELECT q.name FROM queue AS q
  WHERE q.rules IS NULL AND q.paused = 0 AND NOT EXISTS (SELECT 1 FROM counter AS c WHERE c.queue = q.name AND c.name = 'claimed' AND c.at >= :before)
    AND NOT EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name)
    AND NOT EXISTS (SELECT 1 FROM schedule AS s WHERE s.queue = q.name)
    AND (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.finished_at IS NOT NULL ORDER BY j.queue, j.state, j.finished_at LIMIT 1) IS NULL
    AND (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'queued' AND j.ready_at IS NOT NULL ORDER BY j.queue, j.handler, j.priority LIMIT 1) IS NULL
    AND (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'waiting' ORDER BY j.queue LIMIT 1) IS NULL
  LIMIT :limit)
  AND (SELECT count(*) FROM (SELECT 1 FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL LIMIT :most)) < :most
  AND (SELECT count(*) FROM (SELECT 1 FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :most)) < :most
  AND name NOT IN (SELECT queue FROM (SELECT queue FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL LIMIT :most) AS later)
  AND name NOT IN (SELECT queue FROM (SELECT queue FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :most) AS aside)
  AND name NOT IN (SELECT queue FROM job WHERE state = 'running')
RETURNING name

-- name: forget_queues (postgres)
DELETE FROM queue WHERE name IN (
  SELECT q.name FROM queue AS q
  WHERE q.rules IS NULL AND q.paused = 0 AND NOT EXISTS (SELECT 1 FROM tally AS t WHERE t.queue = q.name AND t.claimed_at >= :before)
    AND NOT EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name)
    AND NOT EXISTS (SELECT 1 FROM schedule AS s WHERE s.queue = q.name)
    AND (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.finished_at IS NOT NULL ORDER BY j.queue, j.state, j.finished_at LIMIT 1) IS NULL
    AND (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'queued' AND j.ready_at IS NOT NULL ORDER BY j.queue, j.handler, j.priority LIMIT 1) IS NULL
    AND (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'waiting' ORDER BY j.queue LIMIT 1) IS NULL
  LIMIT :limit)
  AND (SELECT count(*) FROM (SELECT 1 FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL LIMIT :most) AS due) < :most
  AND (SELECT count(*) FROM (SELECT 1 FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :most) AS parked) < :most
  AND name NOT IN (SELECT queue FROM (SELECT queue FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL LIMIT :most) AS later)
  AND name NOT IN (SELECT queue FROM (SELECT queue FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :most) AS aside)
  AND name NOT IN (SELECT queue FROM job WHERE state = 'running')
RETURNING name

-- name: return_queues
-- locks: queues
-- changes: rules
-- A job may have come at the moment its queue was forgotten, from a transaction that had seen the queue: then it is back.
INSERT INTO queue (name)
SELECT substr(u.name, 11) FROM upkeep AS u
WHERE u.name LIKE 'forgotten %' AND (
  (SELECT 1 FROM job AS j WHERE j.queue = substr(u.name, 11) AND j.state = 'queued' AND j.ready_at IS NOT NULL ORDER BY j.queue, j.handler, j.priority LIMIT 1) IS NOT NULL
  OR (SELECT 1 FROM job AS j WHERE j.queue = substr(u.name, 11) AND j.state = 'waiting' ORDER BY j.queue LIMIT 1) IS NOT NULL
  OR (SELECT 1 FROM job AS j WHERE j.queue = substr(u.name, 11) AND j.finished_at IS NOT NULL ORDER BY j.queue, j.state, j.finished_at LIMIT 1) IS NOT NULL)
ON CONFLICT (name) DO NOTHING

-- name: delete_forgotten
-- locks: upkeep
DELETE FROM upkeep WHERE name LIKE 'forgotten %' AND at < :before

-- name: is_paused
-- locks: queues
SELECT paused FROM queue WHERE name = :queue FOR UPDATE

-- name: keep_pause
-- locks: tokens
INSERT INTO shared_setting (name, value, published_by, published_at) VALUES (:name, :value, :by, :now)
ON CONFLICT (name) DO UPDATE
SET value = excluded.value, published_by = excluded.published_by, published_at = excluded.published_at

-- name: forget_pause
-- locks: tokens
DELETE FROM shared_setting WHERE name = :name

-- name: kept_pauses
SELECT name, value, published_by, published_at FROM shared_setting WHERE substr(name, 1, :length) = :prefix

-- name: pause_queue
-- locks: queues
-- changes: rules
UPDATE queue SET paused = :paused::boolean::integer WHERE name = :queue RETURNING name

-- name: count_due
SELECT count(*) FROM (SELECT 1 FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue LIMIT :most)

-- name: count_due (postgres)
SELECT count(*) FROM (
  SELECT 1 FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue ORDER BY handler, priority LIMIT :most
) AS due
