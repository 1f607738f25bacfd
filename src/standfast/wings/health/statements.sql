-- Statements of health. How they are written: store/statements.py.

-- columns: standfast.wings.health.scripts.WorkerRow
from worker: id, host, pid, queues, declares, started_at, beat_at

-- columns: standfast.wings.health.scripts.Running
from j: worker, queue, handler, attempts, claimed_at
id: b.id

-- columns: standfast.wings.health.scripts.Missing
from worker: id, host, pid, process, beat_at
dead: worker.died_at IS NOT NULL OR worker.boot <> :boot
holds: (SELECT count(*) FROM job AS j WHERE j.state = 'running' AND j.worker = worker.id)
ran: coalesce(worker.ran, (SELECT json_group_object(what, number) FROM (
    SELECT j.queue || '/' || j.handler AS what, count(*) AS number FROM job AS j
    WHERE j.state = 'running' AND j.worker = worker.id GROUP BY j.queue, j.handler)))

-- columns: standfast.wings.health.scripts.Missing (postgres)
ran: coalesce(worker.ran, (SELECT coalesce(json_object_agg(what, number), '{}')::text FROM (
    SELECT j.queue || '/' || j.handler AS what, count(*) AS number FROM job AS j
    WHERE j.state = 'running' AND j.worker = worker.id GROUP BY j.queue, j.handler) AS held))

-- name: queue_facts
SELECT q.name, q.rules, q.paused, (SELECT at FROM counter WHERE queue = q.name AND name = 'claimed'),
  EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name)
FROM queue AS q

-- name: queue_facts (postgres)
SELECT q.name, q.rules, q.paused, (SELECT max(t.claimed_at) FROM tally AS t WHERE t.queue = q.name),
  EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name)
FROM queue AS q

-- name: waiting_lanes
-- The distinct queues, handlers and priorities that have claimable jobs, by a loose scan of the index; and since when the
-- oldest job of each has been claimable.
WITH RECURSIVE lane (queue, handler, priority, ready_at) AS (
  SELECT * FROM (
    SELECT queue, handler, priority, ready_at FROM job WHERE state = 'queued' AND ready_at IS NOT NULL
    ORDER BY queue, handler, priority, ready_at LIMIT 1)
  UNION ALL
  SELECT j.queue, j.handler, j.priority, j.ready_at FROM lane JOIN job AS j ON j.n = coalesce(
    (SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = lane.queue AND handler = lane.handler
       AND priority > lane.priority ORDER BY priority, ready_at, n LIMIT 1),
    (SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = lane.queue AND handler > lane.handler
     ORDER BY handler, priority, ready_at, n LIMIT 1),
    (SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue > lane.queue
     ORDER BY queue, handler, priority, ready_at, n LIMIT 1))
  LIMIT :most
)
SELECT queue, handler, priority, ready_at FROM lane

-- name: waiting_lanes (postgres)
WITH RECURSIVE lane (queue, handler, priority, ready_at) AS (
  (SELECT queue, handler, priority, ready_at FROM job WHERE state = 'queued' AND ready_at IS NOT NULL
   ORDER BY queue, handler, priority, ready_at LIMIT 1)
  UNION ALL
  SELECT following.queue, following.handler, following.priority, following.ready_at FROM lane CROSS JOIN LATERAL (
    SELECT j.queue, j.handler, j.priority, j.ready_at FROM job AS j
    WHERE j.state = 'queued' AND j.ready_at IS NOT NULL
      AND (j.queue, j.handler, j.priority) > (lane.queue, lane.handler, lane.priority)
    ORDER BY j.queue, j.handler, j.priority, j.ready_at LIMIT 1) AS following
)
SELECT queue, handler, priority, ready_at FROM lane LIMIT :most

-- name: late_since
-- By queue, the oldest due job that no claim has made claimable yet. Only the first due jobs are read; they include the oldest of all.
SELECT queue, min(due_at) FROM (
  SELECT queue, due_at FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now
  ORDER BY due_at LIMIT :most
) AS late GROUP BY queue

-- name: longest_due
-- By queue, since when the oldest due job has been due, claimable or parked at a gate. A gate that lets a job go on makes it
-- claimable anew, behind others: so both ends of each lane are read, and the first jobs of each gate, a limited number of each.
WITH RECURSIVE parked (gate) AS (
  SELECT min(parked_on) FROM job WHERE state = 'queued' AND parked_on IS NOT NULL
  UNION ALL
  SELECT (SELECT min(j.parked_on) FROM job AS j WHERE j.state = 'queued' AND j.parked_on > parked.gate)
  FROM parked WHERE parked.gate IS NOT NULL LIMIT :most
)
SELECT queue, min(due_at) FROM (
  SELECT j.queue, j.due_at FROM json_each(:lanes) AS lane CROSS JOIN job AS j ON j.n IN (
    SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = lane.value->>0 AND handler = lane.value->>1
      AND priority = lane.value->>2 ORDER BY ready_at, n LIMIT :share)
  UNION ALL
  SELECT j.queue, j.due_at FROM json_each(:lanes) AS lane CROSS JOIN job AS j ON j.n IN (
    SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = lane.value->>0 AND handler = lane.value->>1
      AND priority = lane.value->>2 ORDER BY ready_at DESC, n DESC LIMIT :share)
  UNION ALL
  SELECT j.queue, j.due_at FROM parked CROSS JOIN job AS j ON j.n IN (
    SELECT n FROM job WHERE state = 'queued' AND parked_on = parked.gate ORDER BY n LIMIT :first)
) AS waiting WHERE due_at <= :now GROUP BY queue

-- name: longest_due (postgres)
WITH RECURSIVE all_parked (gate) AS (
  SELECT min(parked_on) FROM job WHERE state = 'queued' AND parked_on IS NOT NULL
  UNION ALL
  SELECT (SELECT min(j.parked_on) FROM job AS j WHERE j.state = 'queued' AND j.parked_on > all_parked.gate)
  FROM all_parked WHERE all_parked.gate IS NOT NULL
), parked AS MATERIALIZED (
  SELECT gate FROM all_parked LIMIT :most
)
SELECT queue, min(due_at) FROM (
  SELECT j.queue, j.due_at FROM jsonb_array_elements(:lanes::jsonb) AS lane CROSS JOIN LATERAL (
    SELECT queue, due_at FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = lane->>0 AND handler = lane->>1
      AND priority = (lane->>2)::integer ORDER BY ready_at, n LIMIT :share) AS j
  UNION ALL
  SELECT j.queue, j.due_at FROM jsonb_array_elements(:lanes::jsonb) AS lane CROSS JOIN LATERAL (
    SELECT queue, due_at FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = lane->>0 AND handler = lane->>1
      AND priority = (lane->>2)::integer ORDER BY ready_at DESC, n DESC LIMIT :share) AS j
  UNION ALL
  SELECT j.queue, j.due_at FROM parked CROSS JOIN LATERAL (
    SELECT queue, due_at FROM job WHERE state = 'queued' AND parked_on = parked.gate ORDER BY n LIMIT :first) AS j
) AS waiting WHERE due_at <= :now GROUP BY queue

-- name: unknown_handlers
-- The undeclared handlers that waiting jobs name: for claimable jobs in all lanes, for other jobs among a limited number of
-- those that come due first or are parked.
SELECT queue, handler FROM (
  SELECT value->>0 AS queue, value->>1 AS handler FROM json_each(:lanes)
  UNION
  SELECT queue, handler FROM (
    SELECT queue, handler FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL ORDER BY due_at LIMIT :most)
  UNION
  SELECT queue, handler FROM (SELECT queue, handler FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :most)
) AS asked
WHERE NOT EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = asked.queue AND h.name = asked.handler)

-- name: unknown_handlers (postgres)
SELECT queue, handler FROM (
  SELECT lane->>0 AS queue, lane->>1 AS handler FROM jsonb_array_elements(:lanes::jsonb) AS lane
  UNION
  SELECT queue, handler FROM (
    SELECT queue, handler FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL ORDER BY due_at LIMIT :most
  ) AS scheduled
  UNION
  SELECT queue, handler FROM (
    SELECT queue, handler FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :most
  ) AS parked
) AS asked
WHERE NOT EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = asked.queue AND h.name = asked.handler)

-- name: rules_and_handlers
-- What is in force, under the names by which a worker declares it: queue or queue/handler.
SELECT name, rules FROM queue WHERE rules IS NOT NULL
UNION ALL
SELECT queue || '/' || name,
  json_object('queue', queue, 'name', name, 'replay_mode', replay_mode, 'risk', risk, 'timeout', timeout,
    'consent', json(iif(consent, 'true', 'false')), 'when_landed', when_landed) FROM handler

-- name: rules_and_handlers (postgres)
SELECT name, rules FROM queue WHERE rules IS NOT NULL
UNION ALL
SELECT queue || '/' || name,
  json_build_object('queue', queue, 'name', name, 'replay_mode', replay_mode, 'risk', risk, 'timeout', timeout,
    'consent', consent = 1, 'when_landed', when_landed)::text FROM handler

-- name: live_workers
SELECT :columns(WorkerRow) FROM worker WHERE boot = :boot AND beat_at > :since AND died_at IS NULL

-- name: running_of_workers
SELECT worker, queue, count(*) FROM job INDEXED BY job_running WHERE state = 'running' GROUP BY worker, queue

-- name: running_of_workers (postgres)
SELECT worker, queue, count(*) FROM job WHERE state = 'running' GROUP BY worker, queue

-- name: longest_running
SELECT :columns(Running) FROM job AS j INDEXED BY job_running CROSS JOIN body AS b ON b.n = j.n
WHERE j.state = 'running' ORDER BY j.claimed_at LIMIT :most

-- name: longest_running (postgres)
SELECT :columns(Running) FROM job AS j JOIN body AS b ON b.n = j.n WHERE j.state = 'running' ORDER BY j.claimed_at LIMIT :most

-- name: missing_workers
-- Workers that died or were last heard of lately, and all that hold jobs; whether they are alive is judged elsewhere.
-- Each with what it ran when it died, or holds now.
SELECT :columns(Missing) FROM worker
WHERE coalesce(died_at, beat_at) > :since OR EXISTS (SELECT 1 FROM job AS j WHERE j.state = 'running' AND j.worker = worker.id)
ORDER BY id

-- name: abandoned_jobs
SELECT j.queue, count(*) FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
WHERE j.state = 'running' AND (w.boot <> :boot OR max(coalesce(w.beat_at, 0), j.claimed_at) <= :since)
GROUP BY j.queue

-- name: abandoned_jobs (postgres)
SELECT j.queue, count(*) FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
WHERE j.state = 'running' AND (w.boot <> :boot OR greatest(coalesce(w.beat_at, 0), j.claimed_at) <= :since)
GROUP BY j.queue

-- name: overdue_jobs
-- The worker was heard of after the time was over, and lately: a killed worker says nothing of what it ran.
SELECT j.queue, count(*) FROM job AS j JOIN worker AS w ON w.id = j.worker AND w.boot = :boot AND w.beat_at > :since
WHERE j.state = 'running' AND j.claimed_at + j.timeout < w.beat_at GROUP BY j.queue

-- name: waiting_suspects
-- Jobs that wait to run alone, since the later of their own time and the loss of the worker that ran them.
SELECT queue, count(*), min(since) FROM (
  SELECT j.queue, max(j.ready_at, coalesce((
    SELECT h.entry->>'at' FROM history AS h WHERE h.n = j.n ORDER BY h.line DESC LIMIT 1), 0)) AS since
  FROM job AS j INDEXED BY job_suspect
  WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.suspect IS NOT NULL LIMIT :most
) GROUP BY queue

-- name: waiting_suspects (postgres)
SELECT queue, count(*), min(since) FROM (
  SELECT j.queue, greatest(j.ready_at, (
    SELECT (h.entry::jsonb->>'at')::double precision FROM history AS h WHERE h.n = j.n ORDER BY h.line DESC LIMIT 1)) AS since
  FROM job AS j
  WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.suspect IS NOT NULL LIMIT :most
) AS waiting GROUP BY queue

-- name: deferred_jobs
-- Jobs held back by a gate other than a thread's that have been due for long; and whether there may be more.
WITH parked AS MATERIALIZED (
  SELECT j.queue, j.due_at FROM gate AS g CROSS JOIN job AS j ON j.state = 'queued' AND j.parked_on = g.key
  WHERE g.kind <> 'thread' LIMIT :most
)
SELECT queue, count(*), (SELECT count(*) FROM parked) >= :most FROM parked WHERE due_at < :before GROUP BY queue

-- name: deferred_jobs (postgres)
WITH parked AS MATERIALIZED (
  SELECT j.queue, j.due_at FROM gate AS g JOIN job AS j ON j.state = 'queued' AND j.parked_on = g.key
  WHERE g.kind <> 'thread' LIMIT :most
)
SELECT queue, count(*), (SELECT count(*) FROM parked) >= :most FROM parked WHERE due_at < :before GROUP BY queue

-- name: counters
SELECT queue, name, value FROM counter

-- name: counters (postgres)
SELECT queue, name, sum(value)::bigint FROM (
  SELECT queue, name, value FROM counter UNION ALL SELECT queue, name, value FROM counted
) AS parts GROUP BY queue, name

-- name: job_counts
-- Exact, at a cost that no backlog raises: see the migration `job_counts`. Jobs due soon are counted by their index up to
-- `:soon`; from there slots of ten seconds are read, and then whole hours. Running jobs are at most as many as workers have slots.
SELECT queue, what, sum(number) FROM job_count WHERE what IN ('queued', 'waiting', 'dead', 'held', 'parked') GROUP BY queue, what
UNION ALL
SELECT queue, 'queued', CASE name WHEN 'enqueued' THEN value ELSE -value END FROM counter WHERE name IN ('enqueued', 'claimed')
UNION ALL
SELECT queue, 'scheduled', sum(number) FROM job_count
WHERE what = 'slot' AND slot >= :slot AND slot < :end_of_slots OR what = 'hour' AND slot >= :hour GROUP BY queue
UNION ALL
SELECT queue, 'scheduled', count(*) FROM job
WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at > :now AND due_at < :soon GROUP BY queue
UNION ALL
SELECT queue, 'running', count(*) FROM job WHERE state = 'running' GROUP BY queue

-- name: job_counts (postgres)
SELECT queue, what, sum(number)::bigint FROM (
  SELECT queue, what, number FROM job_count WHERE what IN ('queued', 'waiting', 'dead', 'held', 'parked')
  UNION ALL
  SELECT queue, what, number FROM job_counted WHERE what IN ('queued', 'waiting', 'dead', 'held', 'parked')
  UNION ALL
  SELECT queue, 'queued', CASE name WHEN 'enqueued' THEN value ELSE -value END FROM (
    SELECT queue, name, value FROM counter UNION ALL SELECT queue, name, value FROM counted
  ) AS told WHERE name IN ('enqueued', 'claimed')
  UNION ALL
  SELECT queue, 'scheduled', number FROM job_count
  WHERE what = 'slot' AND slot >= :slot AND slot < :end_of_slots OR what = 'hour' AND slot >= :hour
  UNION ALL
  SELECT queue, 'scheduled', number FROM job_counted
  WHERE what = 'slot' AND slot >= :slot AND slot < :end_of_slots OR what = 'hour' AND slot >= :hour
) AS parts GROUP BY queue, what
UNION ALL
SELECT queue, 'scheduled', count(*) FROM job
WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at > :now AND due_at < :soon GROUP BY queue
UNION ALL
SELECT queue, 'running', count(*) FROM job WHERE state = 'running' GROUP BY queue

-- name: walked_counts
-- The same counts, taken by walking through the jobs, for `doctor`.
SELECT queue, what, count(*) FROM (
  SELECT queue, CASE WHEN state <> 'queued' THEN state WHEN parked_on IS NOT NULL THEN 'parked'
    WHEN ready_at IS NULL AND due_at > :now THEN 'scheduled' ELSE 'due' END AS what
  FROM job WHERE state IN ('queued', 'waiting', 'running', 'dead', 'held')
) AS walked GROUP BY queue, what

-- name: settled_counts
-- Queues that are in no list any more, and whose counts say that no job of theirs waits or stopped. Slots need no look: what is due later waits.
SELECT queue FROM (
  SELECT queue, what, sum(number) AS number FROM (
    SELECT queue, 'queued' AS what, CASE name WHEN 'enqueued' THEN value WHEN 'claimed' THEN -value ELSE 0 END AS number FROM counter
    UNION ALL
    SELECT queue, what, number FROM job_count WHERE what NOT IN ('slot', 'hour')
  ) AS parts WHERE queue <> '' AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.name = parts.queue) GROUP BY queue, what
) AS sums GROUP BY queue HAVING min(number) = 0 AND max(number) = 0 LIMIT :limit

-- name: settled_counts (postgres)
-- Those with rows that are not summed yet are left for later. Rows that come after this add to what the others say then.
SELECT queue FROM (
  SELECT queue, what, sum(number) AS number FROM (
    SELECT queue, 'queued' AS what, CASE name WHEN 'enqueued' THEN value WHEN 'claimed' THEN -value ELSE 0 END AS number FROM counter
    UNION ALL
    SELECT queue, what, number FROM job_count WHERE what NOT IN ('slot', 'hour')
  ) AS parts WHERE queue <> '' AND NOT EXISTS (SELECT 1 FROM queue AS q WHERE q.name = parts.queue) GROUP BY queue, what
) AS sums
WHERE NOT EXISTS (SELECT 1 FROM counted AS c WHERE c.queue = sums.queue) AND NOT EXISTS (SELECT 1 FROM job_counted AS j WHERE j.queue = sums.queue)
GROUP BY queue HAVING min(number) = 0 AND max(number) = 0 LIMIT :limit

-- name: keep_counters
-- locks: journal
-- Totals keep what forgotten queues counted, as that of a queue without a name.
INSERT INTO counter (queue, name, value)
SELECT '', c.name, sum(c.value) FROM counter AS c WHERE c.queue IN :texts(queues) GROUP BY c.name ORDER BY c.name
ON CONFLICT (queue, name) DO UPDATE SET value = counter.value + excluded.value

-- name: keep_job_counts
-- locks: journal
-- What is enqueued and not claimed, less this, is 0, for the queue without a name as for each of these.
INSERT INTO job_count (what, slot, queue, number)
SELECT c.what, c.slot, '', sum(c.number) FROM job_count AS c WHERE c.queue IN :texts(queues) AND c.what = 'queued' GROUP BY c.what, c.slot
ON CONFLICT (what, slot, queue) DO UPDATE SET number = job_count.number + excluded.number

-- name: delete_counters
-- locks: journal
DELETE FROM counter WHERE queue IN :texts(queues)

-- name: delete_job_counts
-- locks: journal
DELETE FROM job_count WHERE queue IN :texts(queues)

-- name: unsummed_counts (postgres only)
-- How many rows of counters wait to be summed up, to a limit. SQLite sums up as it writes.
SELECT (SELECT count(*) FROM (SELECT 1 FROM counted LIMIT :most) AS c) + (SELECT count(*) FROM (SELECT 1 FROM job_counted LIMIT :most) AS j)

-- name: old_snapshots (postgres only)
-- Who keeps dead rows from being cleaned away, and for how many seconds; unknown for a replication slot.
-- In SQLite nothing can keep them for long.
(SELECT 'a transaction of ' || coalesce(nullif(application_name, ''), usename, 'an unknown user') || ' (pid ' || pid || ')',
  extract(epoch FROM clock_timestamp() - xact_start)::double precision
FROM pg_stat_activity
WHERE coalesce(backend_xmin, backend_xid) IS NOT NULL AND backend_type = 'client backend' AND datname = current_database()
  AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1)
UNION ALL
(SELECT 'the prepared transaction ' || gid, extract(epoch FROM clock_timestamp() - prepared)::double precision
FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 1)
UNION ALL
(SELECT 'the replication slot ' || slot_name, NULL
FROM pg_replication_slots WHERE NOT active AND age(xmin) > 100000 ORDER BY age(xmin) DESC LIMIT 1)

-- name: dead_rows (postgres only)
-- SQLite has none.
SELECT n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relid = to_regclass('job')

-- name: promotion_mark
SELECT iif(state = 'copying' AND until >= :now, 'leaving', 'interrupted'), home FROM moving WHERE state IN ('copying', 'interrupted')

-- name: promotion_mark (postgres)
SELECT 'filling', '' FROM pg_trigger WHERE tgrelid = to_regclass('job') AND tgname = 'only_promotion'

-- name: recent_fallbacks
SELECT c.queue, c.value FROM counter AS c JOIN upkeep AS u ON u.name = 'fallback ' || c.queue
WHERE c.name = 'fallback' AND u.at > :since

-- name: recent_fallbacks (postgres)
SELECT c.queue, sum(c.value)::bigint FROM (
  SELECT queue, name, value FROM counter UNION ALL SELECT queue, name, value FROM counted
) AS c JOIN upkeep AS u ON u.name = 'fallback ' || c.queue
WHERE c.name = 'fallback' AND u.at > :since GROUP BY c.queue

-- name: silent_jobs
-- By queue, the accepted jobs that nothing moves and that have no reason to wait. Each kind is looked for among a limited number
-- of jobs, lanes and gates. Jobs that are final, due later, or wait for an earlier step do not count. `:since` is two sweeps ago;
-- `:lanes` are those where a job has been claimable for so long. The last column says whether there may be more.
WITH RECURSIVE parked (gate) AS (
  SELECT min(parked_on) FROM job WHERE state = 'queued' AND parked_on IS NOT NULL
  UNION ALL
  SELECT (SELECT min(j.parked_on) FROM job AS j WHERE j.state = 'queued' AND j.parked_on > parked.gate)
  FROM parked WHERE parked.gate IS NOT NULL LIMIT :some
), silent (queue, number, most) AS (
  -- Due, in a queue that no worker has claimed from since, and that no gate of its own holds back.
  SELECT q.name, (SELECT count(*) FROM (
    SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.queue = q.name AND j.handler = lane.value->>1
      AND j.priority = lane.value->>2 AND j.ready_at <= :since LIMIT :share)), :share
  FROM json_each(:lanes) AS lane JOIN queue AS q ON q.name = lane.value->>0
  WHERE coalesce((SELECT at FROM counter WHERE queue = q.name AND name = 'claimed'), 0) < :since AND NOT EXISTS (
    SELECT 1 FROM gate AS g
    WHERE g.key IN ('gate:' || replace(replace(q.name, '%', '%25'), ':', '%3A'), 'rate:' || replace(replace(q.name, '%', '%25'), ':', '%3A'), 'limit:' || replace(replace(q.name, '%', '%25'), ':', '%3A')) AND (g.kind <> 'limit' OR g.used >= g.capacity))
  UNION ALL
  SELECT j.queue, count(*), :most FROM (
    SELECT queue FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :since LIMIT :most
  ) AS j JOIN queue AS q ON q.name = j.queue AND coalesce((SELECT at FROM counter WHERE queue = q.name AND name = 'claimed'), 0) < :since GROUP BY j.queue
  UNION ALL
  -- Parked on a gate that does not exist, or whose holder will not hand it on.
  SELECT j.queue, count(*), :some FROM (
    SELECT j.queue FROM parked CROSS JOIN job AS j ON j.state = 'queued' AND j.parked_on = parked.gate
    WHERE NOT EXISTS (
      SELECT 1 FROM gate AS g LEFT JOIN job AS h ON h.n = g.holder
      WHERE g.key = parked.gate AND (g.holder IS NULL OR h.state IN ('queued', 'running'))
        AND (g.kind <> 'limit' OR g.used > 0) AND (g.kind NOT IN ('rate', 'breaker') OR g.opens_at IS NOT NULL))
    LIMIT :some
  ) AS j GROUP BY j.queue
  UNION ALL
  -- Running for a worker that was last heard of more than a lease ago, and not swept.
  SELECT j.queue, 1, :most FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
  WHERE j.state = 'running' AND (w.boot <> :boot AND j.claimed_at < :since
    OR max(coalesce(w.beat_at, 0), j.claimed_at) + j.lease < :since)
  UNION ALL
  -- A letter without a reason.
  SELECT j.queue, 1, :some FROM (
    SELECT j.n, j.queue FROM queue AS q CROSS JOIN job AS j
      ON j.queue = q.name AND j.state IN ('dead', 'held') AND j.finished_at IS NOT NULL LIMIT :some
  ) AS j LEFT JOIN ending AS e ON e.n = j.n WHERE e.failure IS NULL
  UNION ALL
  -- A step that waits although every step before it is final.
  SELECT j.queue, 1, :some FROM (SELECT n, queue FROM job WHERE state = 'waiting' LIMIT :some) AS j WHERE NOT EXISTS (
    SELECT 1 FROM body AS b CROSS JOIN json_each(b.parents) AS p CROSS JOIN job AS k ON k.n = p.value
    WHERE b.n = j.n AND k.state NOT IN ('completed', 'cancelled'))
)
SELECT queue, sum(number), max(number >= most) FROM silent GROUP BY queue HAVING sum(number) > 0

-- name: silent_jobs (postgres)
WITH RECURSIVE all_parked (gate) AS (
  SELECT min(parked_on) FROM job WHERE state = 'queued' AND parked_on IS NOT NULL
  UNION ALL
  SELECT (SELECT min(j.parked_on) FROM job AS j WHERE j.state = 'queued' AND j.parked_on > all_parked.gate)
  FROM all_parked WHERE all_parked.gate IS NOT NULL
), parked AS MATERIALIZED (
  SELECT gate FROM all_parked LIMIT :some
), seen AS (
  SELECT q.name, coalesce((SELECT max(t.claimed_at) FROM tally AS t WHERE t.queue = q.name), 0) AS claimed_at FROM queue AS q
), silent (queue, number, most) AS (
  -- Due, in a queue that no worker has claimed from since, and that no gate of its own holds back.
  SELECT q.name, (SELECT count(*) FROM (
    SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.queue = q.name AND j.handler = lane->>1
      AND j.priority = (lane->>2)::integer AND j.ready_at <= :since LIMIT :share) AS due), :share::bigint
  FROM jsonb_array_elements(:lanes::jsonb) AS lane JOIN seen AS q ON q.name = lane->>0
  WHERE q.claimed_at < :since AND NOT EXISTS (
    SELECT 1 FROM gate AS g
    WHERE g.key IN ('gate:' || replace(replace(q.name, '%', '%25'), ':', '%3A'), 'rate:' || replace(replace(q.name, '%', '%25'), ':', '%3A'), 'limit:' || replace(replace(q.name, '%', '%25'), ':', '%3A')) AND (g.kind <> 'limit' OR g.used >= g.capacity))
  UNION ALL
  SELECT j.queue, count(*), :most::bigint FROM (
    SELECT queue FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :since LIMIT :most
  ) AS j JOIN seen AS q ON q.name = j.queue AND q.claimed_at < :since GROUP BY j.queue
  UNION ALL
  -- Parked on a gate that does not exist, or whose holder will not hand it on.
  SELECT j.queue, count(*), :some::bigint FROM (
    SELECT j.queue FROM parked JOIN job AS j ON j.state = 'queued' AND j.parked_on = parked.gate
    WHERE NOT EXISTS (
      SELECT 1 FROM gate AS g LEFT JOIN job AS h ON h.n = g.holder
      WHERE g.key = parked.gate AND (g.holder IS NULL OR h.state IN ('queued', 'running'))
        AND (g.kind <> 'limit' OR g.used > 0) AND (g.kind NOT IN ('rate', 'breaker') OR g.opens_at IS NOT NULL))
    LIMIT :some
  ) AS j GROUP BY j.queue
  UNION ALL
  -- Running for a worker that was last heard of more than a lease ago, and not swept.
  SELECT j.queue, 1, :most::bigint FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
  WHERE j.state = 'running' AND (w.boot <> :boot AND j.claimed_at < :since
    OR greatest(coalesce(w.beat_at, 0), j.claimed_at) + j.lease < :since)
  UNION ALL
  -- A letter without a reason.
  SELECT j.queue, 1, :some::bigint FROM (
    SELECT n, queue FROM job WHERE state IN ('dead', 'held') AND finished_at IS NOT NULL LIMIT :some
  ) AS j WHERE (SELECT e.failure FROM ending AS e WHERE e.n = j.n) IS NULL
  UNION ALL
  -- A step that waits although every step before it is final.
  SELECT j.queue, 1, :some::bigint FROM (SELECT n, queue FROM job WHERE state = 'waiting' LIMIT :some) AS j WHERE NOT EXISTS (
    SELECT 1 FROM body AS b CROSS JOIN LATERAL jsonb_array_elements_text(b.parents::jsonb) AS p JOIN job AS k ON k.n = p::bigint
    WHERE b.n = j.n AND k.state NOT IN ('completed', 'cancelled'))
)
SELECT queue, sum(number)::bigint, bool_or(number >= most) FROM silent GROUP BY queue HAVING sum(number) > 0

-- name: recent_letters
-- By queue, how many jobs became letters lately and still are.
SELECT q.name, (SELECT count(*) FROM job AS j WHERE j.queue = q.name AND j.state = 'dead' AND j.finished_at > :since)
  + (SELECT count(*) FROM job AS j WHERE j.queue = q.name AND j.state = 'held' AND j.finished_at > :since)
FROM queue AS q

-- name: recent_refusals
SELECT queue, count(*) FROM (
  SELECT (SELECT j.queue FROM job AS j WHERE j.n = e.n) AS queue FROM ending AS e WHERE e.refused_at > :since
) AS lately WHERE queue IS NOT NULL GROUP BY queue

-- name: write_timings
-- locks: workers
INSERT INTO timing (owner, part, queue, counts) :rows(text, integer, text, text)
ON CONFLICT (owner, part, queue) DO UPDATE SET counts = excluded.counts

-- name: timings
SELECT queue, counts FROM timing

-- name: timings_of_the_gone
-- The counts of workers that are gone, and the sum of those that were gone before.
SELECT t.owner, t.part, t.queue, t.counts FROM timing AS t
WHERE t.owner = '' OR NOT EXISTS (SELECT 1 FROM worker AS w WHERE w.id = t.owner)

-- name: delete_timings
-- locks: workers
DELETE FROM timing WHERE owner IN :texts(owners)
