-- Statements of limits. How they are written: store/statements.py.

-- columns: standfast.wings.limits.words.Row
from gate: key, kind, holder, capacity, used, opens_at, detail

-- name: try_gates
-- locks: limits
-- waits: no
-- In SQLite the one writer owns all gates.
SELECT value FROM json_each(:gates)

-- name: try_gates (postgres)
SELECT gate FROM jsonb_array_elements_text(:gates::jsonb) AS gate
WHERE pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' ' || gate, 57))

-- name: read_gates
SELECT :columns(Row) FROM gate WHERE key IN :texts(gates)

-- name: destination_gates
SELECT :columns(Row) FROM gate WHERE kind = 'breaker'
UNION ALL SELECT :columns(Row) FROM gate WHERE kind = 'hold'

-- name: candidates
SELECT j.n, j.handler, b.payload, j.occupies
FROM json_each(:numbers) AS e CROSS JOIN job AS j ON j.n = e.value CROSS JOIN body AS b ON b.n = e.value

-- name: candidates (postgres)
SELECT j.n, j.handler, b.payload, j.occupies
FROM jsonb_array_elements_text(:numbers::jsonb) WITH ORDINALITY AS e(n, place)
JOIN job AS j ON j.n = e.n::bigint JOIN body AS b ON b.n = j.n ORDER BY e.place

-- name: park_jobs
-- locks: jobs
-- A job that may not start is parked at once: it spends no attempt, and leaves the claim's index.
WITH fresh (n, gate, tickets, defers) AS (:rows(bigint, text, text, integer))
UPDATE job SET parked_on = fresh.gate, ready_at = NULL, occupies = fresh.tickets, deferrals = deferrals + fresh.defers
FROM fresh WHERE job.n = fresh.n

-- name: occupy_gates
-- locks: jobs
WITH fresh (n, places) AS (:rows(bigint, text))
UPDATE job SET occupies = fresh.places FROM fresh WHERE job.n = fresh.n

-- name: write_gates
-- locks: limits
INSERT INTO gate (key, kind, holder, capacity, used, opens_at, detail) :rows(text, text, bigint, integer, integer, double precision, text)
ON CONFLICT (key) DO UPDATE
SET holder = excluded.holder, capacity = excluded.capacity, used = excluded.used, opens_at = excluded.opens_at, detail = excluded.detail

-- name: forget_gates
-- locks: limits
-- A gate with waiting jobs stays.
DELETE FROM gate WHERE key IN :texts(gates)
  AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.parked_on = gate.key)

-- name: due_gates
SELECT key FROM gate WHERE opens_at <= :now ORDER BY opens_at LIMIT :limit

-- name: next_in_line
-- locks: jobs
-- waits: no
-- The oldest jobs that wait at each of these gates, after a number; the caller takes no more of each than it wanted.
SELECT e.value->>0, j.n, j.queue FROM json_each(:lines) AS e CROSS JOIN job AS j ON j.n IN (
  SELECT n FROM job WHERE state = 'queued' AND parked_on = e.value->>0 AND n > e.value->>2 ORDER BY n LIMIT :most)
ORDER BY 1, 2

-- name: next_in_line (postgres)
-- The oldest jobs that wait at each of these gates, after a number, except those that another transaction has locked.
SELECT r->>0, line.n, line.queue FROM jsonb_array_elements(:lines::jsonb) AS r CROSS JOIN LATERAL (
  SELECT n, queue FROM job WHERE state = 'queued' AND parked_on = r->>0 AND n > (r->>2)::bigint
  ORDER BY n LIMIT least((r->>1)::integer, :most::integer) FOR UPDATE SKIP LOCKED) AS line

-- name: let_through
-- locks: jobs
-- The jobs become claimable at the end of the line: that is round robin between the gates of a queue.
WITH fresh (n, now, ticket) AS (VALUES :rows)
UPDATE job SET parked_on = NULL, ready_at = fresh.now,
  occupies = iif(fresh.ticket IS NULL, occupies, json_insert(coalesce(occupies, '[]'), '$[#]', fresh.ticket))
FROM fresh WHERE job.n = fresh.n

-- name: let_through (postgres)
UPDATE job SET parked_on = NULL, ready_at = (r->>1)::double precision,
  occupies = CASE WHEN r->>2 IS NULL THEN occupies ELSE (coalesce(occupies, '[]')::jsonb || jsonb_build_array(r->>2))::text END
FROM jsonb_array_elements(:rows::jsonb) AS r WHERE job.n = (r->>0)::bigint

-- name: anyone_parked
SELECT EXISTS (SELECT 1 FROM job WHERE state = 'queued' AND parked_on = :gate)

-- name: all_gates
SELECT :columns(Row) FROM gate WHERE kind <> 'thread' ORDER BY kind <> 'probe', key LIMIT :limit

-- name: doubtful_gates
-- Limits whose count is not the number of places taken, or that have room while jobs wait; breakers whose probe is gone;
-- rates that no longer matter, or that have no opening time while jobs wait. They are judged once they are locked.
WITH taken (key, number) AS MATERIALIZED (
  SELECT e.value, count(*) FROM (
    SELECT occupies FROM job WHERE state = 'running' AND occupies IS NOT NULL
    UNION ALL
    SELECT occupies FROM job WHERE state = 'queued' AND occupies IS NOT NULL
  ) AS j CROSS JOIN json_each(j.occupies) AS e GROUP BY e.value
)
SELECT g.key FROM gate AS g LEFT JOIN taken AS t ON t.key = g.key
WHERE g.kind <> 'thread' AND CASE g.kind
  WHEN 'limit' THEN g.used <> coalesce(t.number, 0)
    OR g.used < g.capacity AND EXISTS (SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.parked_on = g.key)
  WHEN 'breaker' THEN g.holder IS NOT NULL AND t.number IS NULL
  WHEN 'rate' THEN g.opens_at IS NULL AND (coalesce(g.detail->>'until', 0) <= :now
    OR EXISTS (SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.parked_on = g.key))
END LIMIT :limit

-- name: doubtful_gates (postgres)
WITH taken AS MATERIALIZED (
  SELECT e AS key, count(*) AS number FROM (
    SELECT occupies FROM job WHERE state = 'running' AND occupies IS NOT NULL
    UNION ALL
    SELECT occupies FROM job WHERE state = 'queued' AND occupies IS NOT NULL
  ) AS j CROSS JOIN jsonb_array_elements_text(j.occupies::jsonb) AS e GROUP BY e
)
SELECT g.key FROM gate AS g LEFT JOIN taken AS t ON t.key = g.key
WHERE g.kind <> 'thread' AND CASE g.kind
  WHEN 'limit' THEN g.used <> coalesce(t.number, 0)
    OR g.used < g.capacity AND EXISTS (SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.parked_on = g.key)
  WHEN 'breaker' THEN g.holder IS NOT NULL AND t.number IS NULL
  WHEN 'rate' THEN g.opens_at IS NULL AND (coalesce((g.detail::jsonb->>'until')::double precision, 0) <= :now
    OR EXISTS (SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.parked_on = g.key))
  ELSE false
END LIMIT :limit

-- name: places_taken
-- By running jobs, and by jobs that were let through and wait for their claim.
SELECT e.value, count(*) FROM (
  SELECT occupies FROM job WHERE state = 'running' AND occupies IS NOT NULL
  UNION ALL
  SELECT occupies FROM job WHERE state = 'queued' AND occupies IS NOT NULL
) AS j CROSS JOIN json_each(j.occupies) AS e GROUP BY e.value

-- name: places_taken (postgres)
SELECT e, count(*) FROM (
  SELECT occupies FROM job WHERE state = 'running' AND occupies IS NOT NULL
  UNION ALL
  SELECT occupies FROM job WHERE state = 'queued' AND occupies IS NOT NULL
) AS j CROSS JOIN jsonb_array_elements_text(j.occupies::jsonb) AS e GROUP BY e

-- name: stale_tickets
-- locks: jobs
-- waits: no
SELECT n FROM job WHERE state = 'queued' AND occupies IS NOT NULL AND ready_at < :before LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: drop_tickets
-- locks: jobs
UPDATE job SET occupies = NULL WHERE n IN :integers(numbers)

-- name: unpark_lost
-- locks: jobs
-- waits: no
-- Jobs parked at a gate that no longer exists. Jobs of threads are left out: threads keep their own books.
WITH RECURSIVE parked (gate) AS (
  SELECT min(parked_on) FROM job WHERE state = 'queued' AND parked_on IS NOT NULL
  UNION ALL
  SELECT (SELECT min(j.parked_on) FROM job AS j WHERE j.state = 'queued' AND j.parked_on > parked.gate)
  FROM parked WHERE parked.gate IS NOT NULL LIMIT :limit
)
UPDATE job SET parked_on = NULL, ready_at = :now WHERE n IN (
  SELECT j.n FROM parked CROSS JOIN job AS j ON j.state = 'queued' AND j.parked_on = parked.gate
  WHERE parked.gate NOT LIKE 'thread:%' AND NOT EXISTS (SELECT 1 FROM gate AS g WHERE g.key = parked.gate) LIMIT :limit)
RETURNING queue

-- name: unpark_lost (postgres)
WITH RECURSIVE parked (gate) AS (
  (SELECT parked_on FROM job WHERE state = 'queued' AND parked_on IS NOT NULL ORDER BY parked_on LIMIT 1)
  UNION ALL
  SELECT (SELECT j.parked_on FROM job AS j WHERE j.state = 'queued' AND j.parked_on > parked.gate ORDER BY j.parked_on LIMIT 1)
  FROM parked WHERE parked.gate IS NOT NULL
), lost AS MATERIALIZED (
  SELECT j.n FROM (SELECT gate FROM parked LIMIT :limit) AS p CROSS JOIN LATERAL (
    SELECT n FROM job WHERE state = 'queued' AND parked_on = p.gate ORDER BY n LIMIT :limit FOR UPDATE SKIP LOCKED) AS j
  WHERE p.gate NOT LIKE 'thread:%' AND NOT EXISTS (SELECT 1 FROM gate AS g WHERE g.key = p.gate) LIMIT :limit
)
UPDATE job SET parked_on = NULL, ready_at = :now FROM lost WHERE job.n = lost.n
RETURNING queue

-- name: changed_gates
SELECT e.key FROM json_each(:queues) AS e JOIN queue AS q ON q.name = e.key
WHERE q.rules IS NOT NULL AND (q.rules->'concurrency' IS NOT e.value->'concurrency' OR q.rules->'rate' IS NOT e.value->'rate'
  OR q.rules->'gate' IS NOT e.value->'gate' OR q.rules->'breaker' IS NOT e.value->'breaker')

-- name: changed_gates (postgres)
SELECT e.key FROM jsonb_each(:queues::jsonb) AS e JOIN queue AS q ON q.name = e.key
WHERE q.rules IS NOT NULL AND (q.rules::jsonb->'concurrency' IS DISTINCT FROM e.value->'concurrency'
  OR q.rules::jsonb->'rate' IS DISTINCT FROM e.value->'rate' OR q.rules::jsonb->'gate' IS DISTINCT FROM e.value->'gate'
  OR q.rules::jsonb->'breaker' IS DISTINCT FROM e.value->'breaker')

-- name: lock_all_jobs (postgres only)
-- locks: jobs
-- SQLite has one writer at a time. A script that writes many rows in no order must be the only writer.
LOCK TABLE job IN EXCLUSIVE MODE

-- name: drop_rates
-- locks: limits
DELETE FROM gate WHERE kind IN ('rate', 'gate') AND (key IN :texts(gates) OR substr(key, 1, length(:below)) = :below)

-- name: drop_rates (postgres)
DELETE FROM gate WHERE kind IN ('rate', 'gate')
  AND (key IN :texts(gates) OR starts_with(key, :below))

-- name: unpark_queue
-- locks: jobs
UPDATE job SET parked_on = NULL, ready_at = :now
WHERE state = 'queued' AND parked_on IS NOT NULL AND parked_on NOT LIKE 'thread:%' AND queue = :queue

-- name: drop_gates
-- locks: limits
DELETE FROM gate

-- name: drop_findings
-- locks: limits
-- What processes have found out: whether a dependency answers, a gate is open, and a handler's requirements are met.
DELETE FROM gate WHERE kind IN ('breaker', 'gate', 'probe')

-- name: insist_on_job
-- locks: jobs
-- Lets a job pass its handler's probe if that says no: the gate's key is the ticket.
UPDATE job SET due_at = min(due_at, :now), parked_on = NULL, ready_at = :now, occupies = json_insert(coalesce(occupies, '[]'), '$[#]', g.key)
FROM gate AS g
WHERE job.n = (SELECT n FROM body WHERE id = :id) AND job.state = 'queued' AND g.kind = 'probe'
  AND g.key = 'probe:' || replace(replace(job.queue, '%', '%25'), ':', '%3A') || ':' || job.handler
  AND (job.parked_on IS NULL AND job.ready_at IS NOT NULL OR job.parked_on = g.key) AND coalesce(job.occupies, '') NOT LIKE '%"probe:%'
RETURNING job.n, job.queue

-- name: insist_on_job (postgres)
UPDATE job SET due_at = least(due_at, :now), parked_on = NULL, ready_at = :now,
  occupies = (coalesce(job.occupies, '[]')::jsonb || jsonb_build_array(g.key))::text
FROM gate AS g
WHERE job.n = (SELECT n FROM body WHERE id = :id) AND job.state = 'queued' AND g.kind = 'probe'
  AND g.key = 'probe:' || replace(replace(job.queue, '%', '%25'), ':', '%3A') || ':' || job.handler
  AND (job.parked_on IS NULL AND job.ready_at IS NOT NULL OR job.parked_on = g.key) AND coalesce(job.occupies, '') NOT LIKE '%"probe:%'
RETURNING job.n, job.queue
