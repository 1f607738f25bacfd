-- Named statements of the SQLite dialect, in the order the scripts use them.
-- `VALUES :rows` takes a batch of rows: any number of them cross from Python in a few statements.

-- name: lock_gates
-- Nothing to lock: there is one writer at a time.

-- name: try_gate
-- Nothing to lock.

-- name: lock_queue
-- Nothing to lock.

-- name: lock_jobs
-- Nothing to lock.

-- name: known_queues
SELECT name, priority, max_age, max_depth FROM queue WHERE name IN (SELECT value FROM json_each(:queues))

-- name: ensure_queues
INSERT INTO queue (name)
SELECT value FROM json_each(:queues) WHERE true
ON CONFLICT (name) DO NOTHING

-- name: take_keys
-- An expired key is free again; a key whose job is not final never expires.
WITH fresh (queue, key, id, fingerprint, now) AS (VALUES :rows)
INSERT INTO idempotency (queue, key, id, fingerprint)
SELECT queue, key, id, fingerprint FROM fresh WHERE true
ON CONFLICT (queue, key) DO UPDATE
SET id = excluded.id, fingerprint = excluded.fingerprint, until = NULL
WHERE idempotency.until <= (SELECT now FROM fresh)

-- name: key_owners
SELECT e.value->>2, k.id, k.fingerprint, j.state
FROM json_each(:keys) AS e
JOIN idempotency AS k ON k.queue = e.value->>0 AND k.key = e.value->>1
LEFT JOIN body AS b ON b.id = k.id
LEFT JOIN job AS j ON j.n = b.n

-- name: next_numbers
WITH RECURSIVE fresh (n) AS (
  SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'body'), 0) + 1 UNION ALL SELECT n + 1 FROM fresh LIMIT :count
)
SELECT json_group_array(n) FROM fresh

-- name: insert_bodies
-- A job handed in again after an unknown commit is already here: its id says so.
INSERT INTO body (n, id, payload, idempotency_key, details, created_at) VALUES :rows
ON CONFLICT (id) DO NOTHING

-- name: bodies_of
SELECT n, id FROM body WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: insert_jobs
-- One hot row for each of these bodies, all alike.
INSERT INTO job (n, queue, handler, priority, state, due_at, ready_at, entered_at, budget, asked_lease, asked_expiry, expires_at)
SELECT n, :queue, :handler, :priority, 'queued', :due_at, :ready_at, :now, :budget, :asked_lease, :asked_expiry, :expires_at
FROM body WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: promote_due
UPDATE job SET ready_at = due_at
WHERE n IN (SELECT n FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now
              AND thread_gate IS NULL
            ORDER BY due_at LIMIT :limit)

-- name: next_due
SELECT min(due_at) FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL

-- name: queue_rules
SELECT name, rules, paused, claims FROM queue WHERE name IN (SELECT value FROM json_each(:queues))

-- name: lanes
-- The distinct handlers and priorities that have claimable jobs, by a loose scan of the index.
WITH RECURSIVE lane (handler, priority) AS (
  SELECT value, (SELECT max(priority) FROM job
                 WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue AND handler = value)
  FROM json_each(:handlers)
  UNION ALL
  SELECT handler, (SELECT max(priority) FROM job
                   WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue
                     AND handler = lane.handler AND priority < lane.priority)
  FROM lane WHERE priority IS NOT NULL
)
SELECT handler, priority FROM lane WHERE priority IS NOT NULL

-- name: claim_lane
-- In one lane the order by boosted priority and the order by waiting time are the same.
SELECT json_group_array(n) FROM (
  SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue
                      AND handler = :handler AND priority = :priority
  ORDER BY ready_at, n LIMIT :wanted
)

-- name: claim_lanes
-- Inside one priority the oldest has the largest boost, so the head of each lane is all a claim must look at.
-- The order is decide/priority's; with `oldest` it is by waiting time alone.
SELECT json_group_array(n), 0 FROM (
  SELECT j.n FROM json_each(:lanes) AS lane JOIN job AS j ON j.n IN (
    SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue
                        AND handler = lane.value->>0 AND priority = lane.value->>1
                        AND n NOT IN (SELECT value FROM json_each(:but))
    ORDER BY ready_at, n LIMIT :wanted + :beyond)
  ORDER BY iif(:oldest, 0, j.priority + min(:boost_cap, :boost * (:now - j.ready_at) / 3600.0)) DESC, j.ready_at, j.n
  LIMIT :wanted
)

-- name: handler_stamps
SELECT name, replay_mode, timeout FROM handler WHERE queue = :queue

-- name: take_jobs
-- Attempt and token are raised before the handler runs: a payload that kills its worker is counted.
UPDATE job SET state = 'running', ready_at = NULL, attempts = attempts + 1, token = token + 1, worker = :worker,
  claimed_at = :now, max_attempts = round_start + coalesce(budget, :attempts), lease = coalesce(asked_lease, :lease),
  replay_mode = :replay_mode, timeout = :timeout
WHERE n IN (SELECT value FROM json_each(:numbers)) AND handler = :handler

-- name: held_claims
-- Field order is that of the Claim struct. CROSS JOIN keeps the order of the numbers. A first attempt has no effects yet.
SELECT json_group_array(json_array(j.n, j.token, b.id, j.queue, j.handler, j.worker, b.payload, j.attempts, j.max_attempts,
  j.round_start, j.lease, j.timeout, j.replay_mode, j.claimed_at, j.entered_at, j.expires_at, b.idempotency_key,
  json(b.details), j.thread_gate, json(b.coalesced), j.landed, json(j.occupies), json(CASE WHEN j.token > 1 THEN (
    SELECT json_group_array(json_array(f.name, f.state, f.receipt, f.verdict, f.late)) FROM effect AS f WHERE f.n = j.n) END)))
FROM json_each(:numbers) AS e CROSS JOIN job AS j ON j.n = e.value CROSS JOIN body AS b ON b.n = e.value

-- name: count_claims
UPDATE queue SET claims = claims + :claims, claimed_at = :now WHERE name = :queue

-- name: standing_states
-- The state of each job that still has its mover's token, in the order of the moves; null where the token moved on.
SELECT json_group_array(j.state)
FROM json_each(:held) AS e LEFT JOIN job AS j ON j.n = e.value->>0 AND j.token = e.value->>1

-- name: move_jobs
-- The one statement that moves jobs, all alike. Their tokens were checked in this transaction, by standing_states.
-- What may have landed once may have landed for good, however later attempts end.
UPDATE job SET
  state = :target,
  due_at = coalesce(:due_at, due_at),
  ready_at = :ready_at,
  finished_at = :finished_at,
  attempts = attempts + :spends,
  deferrals = deferrals + :defers,
  landed = iif(landed = 'maybe', landed, coalesce(:landed, landed)),
  parked_on = NULL,
  worker = NULL
WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: open_round
-- A replay begins anew: its attempts count from here, its age too, and whoever held the old token is fenced. An expiry
-- that is past does not count any more: whoever replays it wants it all the same.
UPDATE job SET round_start = attempts, max_attempts = NULL, entered_at = :now, token = token + 1, cancelling = 0,
  asked_expiry = iif(asked_expiry > :now, asked_expiry, NULL),
  expires_at = nullif(min(iif(asked_expiry > :now, asked_expiry, 9e99),
    coalesce(:now + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue), 9e99)), 9e99)
WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: count_replays
UPDATE ending SET replays = replays + 1, triage = json_set(triage, '$.replay_status', 'replayed')
WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: write_endings
INSERT INTO ending (n, result, warning, failure, triage, superseded_by) VALUES :rows
ON CONFLICT (n) DO UPDATE
SET result = excluded.result, warning = excluded.warning, failure = excluded.failure, triage = coalesce(excluded.triage, triage),
  superseded_by = excluded.superseded_by

-- name: write_history
WITH fresh (n, entry) AS (VALUES :rows)
INSERT INTO history (n, line, entry)
SELECT n, 1 + coalesce((SELECT max(line) FROM history AS h WHERE h.n = fresh.n), 0), entry FROM fresh

-- name: release_keys
-- Only now may the keys of these jobs expire, those of jobs folded into them included.
UPDATE idempotency SET until = :now + coalesce((SELECT q.rules->>'keep_keys' FROM queue AS q WHERE q.name = idempotency.queue), :keep_keys)
WHERE until IS NULL AND id IN (SELECT b.id FROM json_each(:numbers) AS e JOIN body AS b ON b.n = e.value)

-- name: write_journal
INSERT INTO journal (at, entries) VALUES (:now, :entries)

-- name: add_counters
INSERT INTO counter (queue, name, value) VALUES :rows
ON CONFLICT (queue, name) DO UPDATE SET value = value + excluded.value

-- name: try_journal
-- Nothing to lock.

-- name: number_journal
-- Numbered as they are written: with one writer, that is the order of the commits.

-- name: sum_counters
-- Summed as they are written.

-- name: changed_ages
SELECT e.key FROM json_each(:queues) AS e JOIN queue AS q ON q.name = e.key
WHERE q.max_age IS NOT CAST(e.value->>'max_age' AS REAL)

-- name: publish_queues
INSERT INTO queue (name, rules, priority, max_age, max_depth, declared_at)
SELECT e.key, e.value, e.value->>'priority', CAST(e.value->>'max_age' AS REAL), e.value->>'max_depth', :now
FROM json_each(:queues) AS e WHERE true
ON CONFLICT (name) DO UPDATE
SET rules = excluded.rules, priority = excluded.priority, max_age = excluded.max_age, max_depth = excluded.max_depth,
  declared_at = excluded.declared_at
WHERE queue.rules IS NOT excluded.rules

-- name: lock_all_jobs
-- Nothing to lock.

-- name: restamp_expiry
-- Rules in force are the last published ones, also for what already waits. Reads every job: only for a changed max_age.
UPDATE job SET expires_at = nullif(min(coalesce(asked_expiry, 9e99), coalesce(entered_at + q.max_age, 9e99)), 9e99)
FROM queue AS q
WHERE q.name = job.queue AND q.name IN (SELECT value FROM json_each(:queues)) AND job.state IN ('queued', 'running')

-- name: publish_handlers
INSERT INTO handler (queue, name, replay_mode, risk, timeout, declared_at)
SELECT e.value->>'queue', e.value->>'name', e.value->>'replay_mode', e.value->>'risk', CAST(e.value->>'timeout' AS REAL), :now
FROM json_each(:handlers) AS e WHERE true
ON CONFLICT (queue, name) DO UPDATE
SET replay_mode = excluded.replay_mode, risk = excluded.risk, timeout = excluded.timeout, declared_at = excluded.declared_at

-- name: beat
INSERT INTO worker (id, host, pid, boot, queues, declares, started_at, beat_at)
VALUES (:id, :host, :pid, :boot, :queues, :declares, :now, :now)
ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at, queues = excluded.queues, declares = excluded.declares

-- name: held_by_worker
SELECT j.n, j.token, b.id, j.queue, j.thread_gate, j.cancelling FROM job AS j JOIN body AS b ON b.n = j.n
WHERE j.worker = :id AND j.state = 'running'

-- name: retire_worker
DELETE FROM worker WHERE id = :id AND NOT EXISTS (SELECT 1 FROM job WHERE worker = :id AND state = 'running')

-- name: upkeep_times
SELECT name, at FROM upkeep

-- name: mark_upkeep
INSERT INTO upkeep (name, at) VALUES (:name, :now) ON CONFLICT (name) DO UPDATE SET at = excluded.at

-- name: forget_upkeep
DELETE FROM upkeep WHERE name = :name

-- name: deeper_than
SELECT EXISTS (SELECT 1 FROM job WHERE queue = :queue AND state = 'queued' AND ready_at IS NOT NULL LIMIT 1 OFFSET :depth)

-- name: lapsed_numbers
-- A worker of an earlier boot is gone for certain; any other may only be late. Its claim counts as a beat for the job.
SELECT json_group_array(n) FROM (
  SELECT j.n FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
  WHERE j.state = 'running' AND (w.boot <> :boot OR (:reclaim AND (w.id IS NULL OR max(w.beat_at, j.claimed_at) + j.lease < :now)))
  LIMIT :limit
)

-- name: expired_jobs
SELECT j.n, j.token, b.id, j.queue, j.thread_gate, j.entered_at, j.expires_at, q.max_age
FROM job AS j JOIN body AS b ON b.n = j.n JOIN queue AS q ON q.name = j.queue
WHERE j.state = 'queued' AND j.expires_at <= :now LIMIT :limit

-- name: prunable_numbers
-- CROSS JOIN looks into each queue's ended jobs at the old end only, and never at all of them.
SELECT json_group_array(n) FROM (
  SELECT j.n FROM queue AS q CROSS JOIN job AS j
    ON j.queue = q.name AND j.state IN ('completed', 'cancelled')
   AND j.finished_at < :now - iif(q.rules IS NULL, :keep_completed, q.rules->>'keep_completed')
  LIMIT :limit
)

-- name: delete_jobs
DELETE FROM job WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: delete_bodies
DELETE FROM body WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: delete_endings
DELETE FROM ending WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: delete_history
DELETE FROM history WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: delete_effects
DELETE FROM effect WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: delete_keys
DELETE FROM idempotency WHERE (queue, key) IN (SELECT queue, key FROM idempotency WHERE until <= :now LIMIT :limit)

-- name: delete_journal
-- Times rise with the numbers, so it looks at the oldest rows only.
DELETE FROM journal WHERE seq IN (
  SELECT seq FROM (SELECT seq, at FROM journal ORDER BY seq LIMIT :limit) WHERE at < :before
)

-- name: delete_workers
DELETE FROM worker WHERE beat_at < :before AND NOT EXISTS (SELECT 1 FROM job WHERE job.worker = worker.id AND job.state = 'running')

-- name: job_by_id
SELECT * FROM job_row WHERE id = :id

-- name: list_jobs
SELECT * FROM job_row
WHERE n < :before AND (:queue IS NULL OR queue = :queue) AND (:state IS NULL OR state = :state)
ORDER BY n DESC LIMIT :limit

-- name: history_of
SELECT n, entry FROM history WHERE n IN (SELECT value FROM json_each(:numbers)) ORDER BY n, line

-- name: published_rules
SELECT q.rules FROM queue AS q
WHERE q.name = :queue AND (q.rules IS NOT NULL OR EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name))

-- name: queue_names
SELECT name FROM queue

-- name: last_journal_number
SELECT coalesce(max(seq), 0) FROM journal

-- name: queue_facts
SELECT q.name, q.rules, q.paused, q.claimed_at,
  (SELECT count(*) FROM (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'queued' AND j.ready_at IS NOT NULL LIMIT :most)),
  (SELECT count(*) FROM (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state IN ('dead', 'held') AND j.finished_at IS NOT NULL LIMIT :most)),
  (SELECT min(j.ready_at) FROM job AS j WHERE j.queue = q.name AND j.state = 'queued' AND j.ready_at IS NOT NULL),
  EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name)
FROM queue AS q

-- name: late_jobs
-- Due, but no claim has come by since to make them claimable.
SELECT queue, count(*), min(due_at) FROM (
  SELECT queue, due_at FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now LIMIT :most
) GROUP BY queue

-- name: unknown_handlers
-- The handlers that waiting jobs name and nobody has declared: of claimable ones by a loose scan of the index, of others
-- among so many that come due first or are parked.
WITH RECURSIVE named (queue, handler) AS (
  SELECT * FROM (SELECT queue, handler FROM job WHERE state = 'queued' AND ready_at IS NOT NULL ORDER BY queue, handler LIMIT 1)
  UNION ALL
  SELECT j.queue, j.handler FROM named JOIN job AS j ON j.n = coalesce(
    (SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = named.queue AND handler > named.handler
     ORDER BY handler LIMIT 1),
    (SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue > named.queue
     ORDER BY queue, handler LIMIT 1))
)
SELECT queue, handler FROM (
  SELECT queue, handler FROM named
  UNION
  SELECT queue, handler FROM (
    SELECT queue, handler FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL ORDER BY due_at LIMIT :most)
  UNION
  SELECT queue, handler FROM (SELECT queue, handler FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :most)
) AS asked
WHERE NOT EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = asked.queue AND h.name = asked.handler)

-- name: rules_and_handlers
-- What is in force, under the names a worker declares it by: queue or queue/handler.
SELECT name, rules FROM queue WHERE rules IS NOT NULL
UNION ALL
SELECT queue || '/' || name,
  json_object('queue', queue, 'name', name, 'replay_mode', replay_mode, 'risk', risk, 'timeout', timeout) FROM handler

-- name: live_workers
SELECT id, host, pid, queues, declares, started_at, beat_at FROM worker WHERE boot = :boot AND beat_at > :since

-- name: holder_of_job
SELECT max(coalesce(w.beat_at, 0), j.claimed_at), j.lease, coalesce(w.boot, :boot) = :boot
FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker WHERE j.n = :n AND j.state = 'running'

-- name: abandoned_jobs
SELECT j.queue, count(*) FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
WHERE j.state = 'running' AND (w.boot <> :boot OR max(coalesce(w.beat_at, 0), j.claimed_at) <= :since)
GROUP BY j.queue

-- name: overdue_jobs
SELECT queue, count(*) FROM job WHERE state = 'running' AND claimed_at + timeout < :now GROUP BY queue

-- name: ask_to_stop
UPDATE job SET cancelling = 1 WHERE n = (SELECT n FROM body WHERE id = :id) AND state = 'running' RETURNING queue

-- name: gate_of_job
SELECT j.thread_gate FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = :id AND j.thread_gate IS NOT NULL

-- name: hurry_job
UPDATE job SET due_at = min(due_at, :now), ready_at = :now
WHERE n = (SELECT n FROM body WHERE id = :id) AND state = 'queued' AND ready_at IS NULL AND parked_on IS NULL
RETURNING n, queue, thread_gate

-- name: unwanted_numbers
SELECT n FROM job WHERE n IN (SELECT value FROM json_each(:numbers)) AND cancelling

-- name: pause_queue
UPDATE queue SET paused = :paused WHERE name = :queue RETURNING name

-- name: list_letters
SELECT * FROM job_row
WHERE state IN ('dead', 'held') AND finished_at IS NOT NULL AND n < :before
  AND (:queue IS NULL OR queue = :queue)
  AND (:reason_code IS NULL OR failure->>'reason_code' = :reason_code)
  AND (:failure_class IS NULL OR failure->>'class' = :failure_class)
  AND (:landed IS NULL OR failure->>'landed' = :landed)
  AND (:replay_status IS NULL OR triage->>'replay_status' = :replay_status)
  AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
  AND (:finished_before IS NULL OR finished_at < :finished_before)
ORDER BY n DESC LIMIT :limit

-- name: journal_after
SELECT seq, at, entries FROM journal WHERE seq > :after ORDER BY seq LIMIT :limit

-- name: counters
SELECT queue, name, value FROM counter

-- name: queue_counts
-- Each branch walks one partial index; counting stops at the bound.
SELECT queue, 'running', count(*) FROM (SELECT queue FROM job WHERE state = 'running' LIMIT :most) GROUP BY queue
UNION ALL
SELECT queue, 'scheduled', count(*) FROM (
  SELECT queue FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at > :now LIMIT :most
) GROUP BY queue
UNION ALL
SELECT queue, 'parked', count(*) FROM (
  SELECT queue FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :most
) GROUP BY queue

-- name: thread_members
-- Field order is that of Member.
SELECT j.n, j.token, b.id, j.handler, j.state, j.priority, j.landed, coalesce(b.first_seen_at, b.created_at),
  j.parked_on, j.asked_expiry, b.coalesced, b.created_at
FROM job AS j JOIN body AS b ON b.n = j.n WHERE j.thread_gate = :gate AND j.finished_at IS NULL ORDER BY j.n

-- name: state_of
SELECT b.id, j.state FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = :id

-- name: body_of
SELECT payload, idempotency_key, details FROM body WHERE n = :n

-- name: fold_body
UPDATE body SET payload = :payload, idempotency_key = :key, details = :details, coalesced = :coalesced WHERE n = :n

-- name: fold_job
UPDATE job SET priority = max(priority, :priority), due_at = min(due_at, :due_at), asked_expiry = :asked_expiry,
  expires_at = nullif(min(coalesce(:asked_expiry, 9e99),
    coalesce(entered_at + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue), 9e99)), 9e99)
WHERE n = :n

-- name: hand_key_over
UPDATE idempotency SET id = :id WHERE queue = :queue AND key = :key

-- name: write_aliases
-- Nothing to remember: what is folded here was answered by this very file.

-- name: known_aliases
-- Nothing is known.

-- name: delete_aliases
-- Nothing to delete.

-- name: enter_thread
UPDATE body SET thread_key = :thread_key, first_seen_at = :first_seen_at WHERE n = :n

-- name: raise_priority
UPDATE job SET priority = max(priority, :priority) WHERE n = :n

-- name: join_thread
UPDATE job SET thread_gate = :gate, parked_on = :parked_on, ready_at = iif(:parked_on IS NULL, ready_at, NULL) WHERE n = :n

-- name: gate_holder
SELECT holder FROM gate WHERE key = :gate

-- name: take_gate
INSERT INTO gate (key, kind, holder) VALUES (:gate, 'thread', :n)

-- name: hand_gate
UPDATE gate SET holder = :n WHERE key = :gate

-- name: drop_gate
DELETE FROM gate WHERE key = :gate

-- name: next_parked
SELECT n, queue FROM job WHERE state = 'queued' AND parked_on = :gate ORDER BY n LIMIT 1

-- name: newest_unclaimed
-- The newest job of a thread that was never claimed, also one that is not due yet.
SELECT b.id FROM job AS j JOIN body AS b ON b.n = j.n
WHERE j.thread_gate = :gate AND j.finished_at IS NULL AND j.state = 'queued' AND j.token = 0 AND j.n > :n
  AND EXISTS (SELECT 1 FROM job AS own WHERE own.n = :n AND own.handler = j.handler AND own.landed IS NOT 'maybe')
ORDER BY j.n DESC LIMIT 1

-- name: unpark_job
UPDATE job SET parked_on = NULL, ready_at = :now WHERE n = :n

-- name: due_in_threads
SELECT n, thread_gate FROM job
WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now AND thread_gate IS NOT NULL
ORDER BY due_at LIMIT :limit

-- name: promote_job
UPDATE job SET ready_at = due_at WHERE n = :n AND ready_at IS NULL

-- name: recent_fallbacks
SELECT c.queue, c.value FROM counter AS c JOIN upkeep AS u ON u.name = 'fallback ' || c.queue
WHERE c.name = 'fallback' AND u.at > :since

-- name: count_due
SELECT count(*) FROM (SELECT 1 FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue LIMIT :most)

-- name: known_ids
SELECT id FROM body WHERE id IN (SELECT value FROM json_each(:ids))

-- name: forget_keys
DELETE FROM idempotency WHERE until IS NULL AND id IN (SELECT value FROM json_each(:ids))

-- name: begin_batch
SAVEPOINT batch

-- name: undo_batch
ROLLBACK TO batch

-- name: end_batch
RELEASE batch

-- name: restored_jobs
SELECT j.n, b.id, j.queue, j.attempts FROM job AS j JOIN body AS b ON b.n = j.n
WHERE j.state IN ('queued', 'running') LIMIT :limit

-- name: hold_jobs
UPDATE job SET state = 'held', finished_at = :now, ready_at = NULL, parked_on = NULL, worker = NULL, landed = :landed,
  token = token + 1
WHERE n IN (SELECT value FROM json_each(:numbers))

-- name: drop_gates
DELETE FROM gate WHERE kind = 'thread'

-- name: contents
-- What a backup must hold as well: the rows of each table, and the jobs in each state.
SELECT 'jobs', count(*) FROM job UNION ALL SELECT 'bodies', count(*) FROM body UNION ALL SELECT 'endings', count(*) FROM ending
UNION ALL SELECT 'history', count(*) FROM history UNION ALL SELECT 'keys', count(*) FROM idempotency
UNION ALL SELECT 'journal', coalesce(max(seq), 0) FROM journal UNION ALL SELECT state, count(*) FROM job GROUP BY state

-- name: silent_jobs
-- No path to silence: accepted jobs that nothing moves and no reason is given for, by queue; each kind is looked for among
-- so many jobs. What is final, due later, or waits for an earlier step is none of them. `:since` is two sweeps ago.
WITH silent (queue, number) AS (
  -- Due, in a queue that nobody claimed from since.
  SELECT q.name, (SELECT count(*) FROM (
    SELECT j.ready_at FROM job AS j WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.queue = q.name LIMIT :most
  ) WHERE ready_at <= :since)
  FROM queue AS q WHERE coalesce(q.claimed_at, 0) < :since
  UNION ALL
  SELECT j.queue, 1 FROM (
    SELECT queue FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :since LIMIT :most
  ) AS j JOIN queue AS q ON q.name = j.queue AND coalesce(q.claimed_at, 0) < :since
  UNION ALL
  -- Parked on a gate that is not there, or whose holder will not hand it on.
  SELECT j.queue, 1 FROM (SELECT queue, parked_on FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :most) AS j
  WHERE NOT EXISTS (
    SELECT 1 FROM gate AS g LEFT JOIN job AS h ON h.n = g.holder
    WHERE g.key = j.parked_on AND (g.holder IS NULL OR h.state IN ('queued', 'running')))
  UNION ALL
  -- Running for a worker that was last heard of more than a lease ago, and no sweeper came.
  SELECT j.queue, 1 FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
  WHERE j.state = 'running' AND (w.boot <> :boot AND j.claimed_at < :since
    OR max(coalesce(w.beat_at, 0), j.claimed_at) + j.lease < :since)
  UNION ALL
  -- A letter without a reason.
  SELECT j.queue, 1 FROM (
    SELECT j.n, j.queue FROM queue AS q CROSS JOIN job AS j
      ON j.queue = q.name AND j.state IN ('dead', 'held') AND j.finished_at IS NOT NULL LIMIT :most
  ) AS j LEFT JOIN ending AS e ON e.n = j.n WHERE e.failure IS NULL
)
SELECT queue, sum(number) FROM silent GROUP BY queue HAVING sum(number) > 0
