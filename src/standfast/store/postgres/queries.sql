-- Named statements of the PostgreSQL dialect: the same names as SQLite's, in the same order.
-- `:rows` is a batch as one JSON text, an array for each row; `:numbers` and their like are JSON arrays.
-- Locks are taken in one order by all: gates by name, then jobs by number; a claim waits for nobody.

-- name: lock_gates
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || gate, 57)) FROM jsonb_array_elements_text(:gates::jsonb) AS gate

-- name: try_gate
SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' ' || :gate, 57))

-- name: lock_queue
SELECT 1 FROM queue WHERE name = :queue FOR UPDATE

-- name: lock_jobs
SELECT count(*) FROM (
  SELECT n FROM job WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) ORDER BY n FOR UPDATE
) AS locked

-- name: known_queues
SELECT name, priority, max_age, max_depth FROM queue WHERE name = ANY (ARRAY(SELECT jsonb_array_elements_text(:queues::jsonb)))

-- name: ensure_queues
INSERT INTO queue (name)
SELECT value FROM jsonb_array_elements_text(:queues::jsonb) ORDER BY value
ON CONFLICT (name) DO NOTHING

-- name: take_keys
-- An expired key is free again; a key whose job is not final never expires. Of one key twice, the first row counts.
-- A key that another job has is not even locked: whoever ends that job would wait for its newcomers, and they for it.
WITH wanted AS MATERIALIZED (
  SELECT DISTINCT ON (r->>0, r->>1) r->>0 AS queue, r->>1 AS key, r->>2 AS id, r->>3 AS fingerprint, (r->>4)::double precision AS now
  FROM jsonb_array_elements(:rows::jsonb) WITH ORDINALITY AS e(r, place) ORDER BY r->>0, r->>1, place
), expired AS MATERIALIZED (
  SELECT k.queue, k.key, w.id, w.fingerprint FROM wanted AS w JOIN idempotency AS k ON k.queue = w.queue AND k.key = w.key
  WHERE k.until <= w.now ORDER BY k.queue, k.key FOR UPDATE OF k
), taken AS (
  UPDATE idempotency AS k SET id = e.id, fingerprint = e.fingerprint, until = NULL
  FROM expired AS e WHERE k.queue = e.queue AND k.key = e.key
)
INSERT INTO idempotency (queue, key, id, fingerprint) SELECT queue, key, id, fingerprint FROM wanted
ON CONFLICT (queue, key) DO NOTHING

-- name: key_owners
SELECT r->>2, k.id, k.fingerprint, j.state
FROM jsonb_array_elements(:keys::jsonb) AS r
JOIN idempotency AS k ON k.queue = r->>0 AND k.key = r->>1
LEFT JOIN body AS b ON b.id = k.id
LEFT JOIN job AS j ON j.n = b.n

-- name: next_numbers
SELECT json_agg(nextval('job_number'))::text FROM generate_series(1, :count::integer)

-- name: insert_bodies
-- A job handed in again after an unknown commit is already here: its id says so.
INSERT INTO body (n, id, payload, idempotency_key, details, created_at)
SELECT (r->>0)::bigint, r->>1, r->>2, r->>3, r->>4, (r->>5)::double precision FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (id) DO NOTHING

-- name: bodies_of
SELECT n, id FROM body WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: insert_jobs
-- One hot row for each of these bodies, all alike.
INSERT INTO job (n, queue, handler, priority, state, due_at, ready_at, entered_at, budget, asked_lease, asked_expiry, expires_at)
SELECT n, :queue, :handler, :priority, 'queued', :due_at, :ready_at::double precision, :now, :budget::integer,
  :asked_lease::double precision, :asked_expiry::double precision, :expires_at::double precision
FROM body WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: promote_due
WITH due AS MATERIALIZED (
  SELECT n FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now AND thread_gate IS NULL
  ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
)
UPDATE job SET ready_at = due_at FROM due WHERE job.n = due.n

-- name: next_due
SELECT min(due_at) FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL

-- name: queue_rules
SELECT name, rules, paused, coalesce((SELECT sum(claims) FROM tally WHERE tally.queue = name), 0)::bigint
FROM queue WHERE name = ANY (ARRAY(SELECT jsonb_array_elements_text(:queues::jsonb)))

-- name: lanes
-- The distinct handlers and priorities that have claimable jobs, by a loose scan of the index.
WITH RECURSIVE lane (handler, priority) AS (
  SELECT named, (SELECT priority FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue AND handler = named
                 ORDER BY priority DESC LIMIT 1)
  FROM jsonb_array_elements_text(:handlers::jsonb) AS named
  UNION ALL
  SELECT handler, (SELECT j.priority FROM job AS j
                   WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.queue = :queue
                     AND j.handler = lane.handler AND j.priority < lane.priority
                   ORDER BY j.priority DESC LIMIT 1)
  FROM lane WHERE priority IS NOT NULL
)
SELECT handler, priority FROM lane WHERE priority IS NOT NULL

-- name: claim_lane
-- In one lane the order by boosted priority and the order by waiting time are the same.
WITH chosen AS MATERIALIZED (
  SELECT n, ready_at FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue
                      AND handler = :handler AND priority = :priority
  ORDER BY ready_at, n LIMIT :wanted FOR UPDATE SKIP LOCKED
)
SELECT coalesce(json_agg(n ORDER BY ready_at, n), '[]')::text FROM chosen

-- name: claim_lanes
-- Inside one priority the oldest has the largest boost, so the head of each lane is all a claim must look at.
-- The order is decide/priority's; with `oldest` it is by waiting time alone.
-- Only what is taken is locked: what is locked by others is passed over, and told of.
WITH heads AS MATERIALIZED (
  SELECT head.* FROM jsonb_array_elements(:lanes::jsonb) AS lane CROSS JOIN LATERAL (
    SELECT n, priority, ready_at FROM job
    WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue
      AND handler = lane->>0 AND priority = (lane->>1)::integer
      AND n <> ALL (ARRAY(SELECT jsonb_array_elements_text(:but::jsonb)::bigint))
    ORDER BY ready_at, n LIMIT :wanted::integer + :beyond::integer) AS head
), ranked AS MATERIALIZED (
  SELECT n, row_number() OVER (ORDER BY
    CASE WHEN :oldest THEN 0 ELSE priority + least(:boost_cap, :boost * (:now - ready_at) / 3600.0) END DESC, ready_at, n) AS place
  FROM heads
), chosen AS MATERIALIZED (
  SELECT job.n, place FROM ranked JOIN job ON job.n = ranked.n WHERE job.state = 'queued' AND job.ready_at IS NOT NULL
  ORDER BY place LIMIT :wanted::integer FOR UPDATE OF job SKIP LOCKED
)
SELECT (SELECT coalesce(json_agg(n ORDER BY place), '[]')::text FROM chosen),
  (SELECT count(*) FROM ranked) - (SELECT count(*) FROM chosen)

-- name: handler_stamps
SELECT name, replay_mode, timeout FROM handler WHERE queue = :queue

-- name: take_jobs
-- Attempt and token are raised before the handler runs: a payload that kills its worker is counted.
UPDATE job SET state = 'running', ready_at = NULL, attempts = attempts + 1, token = token + 1, worker = :worker,
  claimed_at = :now, max_attempts = round_start + coalesce(budget, :attempts), lease = coalesce(asked_lease, :lease),
  replay_mode = :replay_mode, timeout = :timeout::double precision
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) AND handler = :handler

-- name: held_claims
-- Field order is that of the Claim struct. A first attempt has no effects yet.
SELECT coalesce(json_agg(json_build_array(j.n, j.token, b.id, j.queue, j.handler, j.worker, b.payload, j.attempts, j.max_attempts,
  j.round_start, j.lease, j.timeout, j.replay_mode, j.claimed_at, j.entered_at, j.expires_at, b.idempotency_key,
  b.details::json, j.thread_gate, b.coalesced::json, j.landed, j.occupies::json, CASE WHEN j.token > 1 THEN (
    SELECT json_agg(json_build_array(f.name, f.state, f.receipt, f.verdict, f.late)) FROM effect AS f WHERE f.n = j.n) END
  ) ORDER BY e.place), '[]')::text
FROM jsonb_array_elements_text(:numbers::jsonb) WITH ORDINALITY AS e(n, place)
JOIN job AS j ON j.n = e.n::bigint JOIN body AS b ON b.n = j.n

-- name: count_claims
INSERT INTO tally (queue, worker, claims, claimed_at) VALUES (:queue, :worker, :claims, :now)
ON CONFLICT (queue, worker) DO UPDATE SET claims = tally.claims + excluded.claims, claimed_at = excluded.claimed_at

-- name: standing_states
-- The state of each job that still has its mover's token, in the order of the moves; null where the token moved on.
SELECT coalesce(json_agg(j.state ORDER BY e.place), '[]')::text
FROM jsonb_array_elements(:held::jsonb) WITH ORDINALITY AS e(r, place)
LEFT JOIN job AS j ON j.n = (e.r->>0)::bigint AND j.token = (e.r->>1)::integer

-- name: move_jobs
-- The one statement that moves jobs, all alike. Their tokens were checked in this transaction, by standing_states.
-- What may have landed once may have landed for good, however later attempts end.
UPDATE job SET
  state = :target,
  due_at = coalesce(:due_at::double precision, due_at),
  ready_at = :ready_at::double precision,
  finished_at = :finished_at::double precision,
  attempts = attempts + :spends,
  deferrals = deferrals + :defers,
  landed = CASE WHEN landed = 'maybe' THEN landed ELSE coalesce(:landed::text, landed) END,
  parked_on = NULL,
  worker = NULL
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: open_round
-- A replay begins anew: its attempts count from here, its age too, and whoever held the old token is fenced. An expiry
-- that is past does not count any more: whoever replays it wants it all the same.
UPDATE job SET round_start = attempts, max_attempts = NULL, entered_at = :now, token = token + 1, cancelling = 0,
  asked_expiry = CASE WHEN asked_expiry > :now THEN asked_expiry END,
  expires_at = least(CASE WHEN asked_expiry > :now THEN asked_expiry END,
    :now + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue))
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: count_replays
UPDATE ending SET replays = replays + 1, triage = jsonb_set(triage::jsonb, '{replay_status}', '"replayed"')::text
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: write_endings
INSERT INTO ending (n, result, warning, failure, triage, superseded_by)
SELECT (r->>0)::bigint, r->>1, r->>2, r->>3, r->>4, r->>5 FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (n) DO UPDATE
SET result = excluded.result, warning = excluded.warning, failure = excluded.failure,
  triage = coalesce(excluded.triage, ending.triage), superseded_by = excluded.superseded_by

-- name: write_history
INSERT INTO history (n, line, entry)
SELECT (r->>0)::bigint, 1 + coalesce((SELECT max(line) FROM history AS h WHERE h.n = (r->>0)::bigint), 0), r->>1
FROM jsonb_array_elements(:rows::jsonb) AS r

-- name: release_keys
-- Only now may the keys of these jobs expire, those of jobs folded into them included.
UPDATE idempotency
SET until = :now + coalesce((SELECT (q.rules::json->>'keep_keys')::double precision FROM queue AS q WHERE q.name = idempotency.queue), :keep_keys)
WHERE until IS NULL AND id = ANY (ARRAY(
  SELECT b.id FROM body AS b WHERE b.n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))))

-- name: write_journal
INSERT INTO told (at, entries) VALUES (:now, :entries)

-- name: add_counters
INSERT INTO counted (queue, name, value)
SELECT r->>0, r->>1, (r->>2)::bigint FROM jsonb_array_elements(:rows::jsonb) AS r

-- name: try_journal
SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' journal', 57))

-- name: number_journal
-- Number what has become visible since: one transaction at a time does it, so numbers rise in commit order.
WITH moved AS (DELETE FROM told RETURNING id, at, entries)
INSERT INTO journal (seq, at, entries)
SELECT (SELECT coalesce(max(seq), 0) FROM journal) + row_number() OVER (ORDER BY id), at, entries FROM moved

-- name: sum_counters
WITH moved AS (DELETE FROM counted RETURNING queue, name, value)
INSERT INTO counter AS c (queue, name, value)
SELECT queue, name, sum(value) FROM moved GROUP BY queue, name ORDER BY queue, name
ON CONFLICT (queue, name) DO UPDATE SET value = c.value + excluded.value

-- name: changed_ages
SELECT e.key FROM jsonb_each(:queues::jsonb) AS e JOIN queue AS q ON q.name = e.key
WHERE q.max_age IS DISTINCT FROM (e.value->>'max_age')::double precision

-- name: publish_queues
INSERT INTO queue (name, rules, priority, max_age, max_depth, declared_at)
SELECT e.key, e.value::text, (e.value->>'priority')::integer, (e.value->>'max_age')::double precision,
  (e.value->>'max_depth')::integer, :now
FROM json_each(:queues::json) AS e ORDER BY e.key
ON CONFLICT (name) DO UPDATE
SET rules = excluded.rules, priority = excluded.priority, max_age = excluded.max_age, max_depth = excluded.max_depth,
  declared_at = excluded.declared_at
WHERE queue.rules IS DISTINCT FROM excluded.rules

-- name: lock_all_jobs
-- Whoever writes many rows in no order must be the only one who writes.
LOCK TABLE job IN EXCLUSIVE MODE

-- name: restamp_expiry
-- Rules in force are the last published ones, also for what already waits. Reads every job: only for a changed max_age.
UPDATE job SET expires_at = least(asked_expiry, entered_at + q.max_age)
FROM queue AS q
WHERE q.name = job.queue AND q.name = ANY (ARRAY(SELECT jsonb_array_elements_text(:queues::jsonb))) AND job.state IN ('queued', 'running')

-- name: publish_handlers
INSERT INTO handler (queue, name, replay_mode, risk, timeout, declared_at)
SELECT r->>'queue', r->>'name', r->>'replay_mode', r->>'risk', (r->>'timeout')::double precision, :now
FROM jsonb_array_elements(:handlers::jsonb) AS r ORDER BY r->>'queue', r->>'name'
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
-- In the index's order, so that nobody thinks of walking through the table until enough are found.
SELECT EXISTS (
  SELECT 1 FROM job WHERE queue = :queue AND state = 'queued' AND ready_at IS NOT NULL
  ORDER BY handler, priority LIMIT 1 OFFSET :depth
)

-- name: lapsed_numbers
-- A worker of an earlier boot is gone for certain; any other may only be late. Its claim counts as a beat for the job.
SELECT coalesce(json_agg(n), '[]')::text FROM (
  SELECT j.n FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
  WHERE j.state = 'running'
    AND (w.boot <> :boot OR (:reclaim AND (w.id IS NULL OR greatest(w.beat_at, j.claimed_at) + j.lease < :now)))
  LIMIT :limit
) AS lapsed

-- name: expired_jobs
SELECT j.n, j.token, b.id, j.queue, j.thread_gate, j.entered_at, j.expires_at, q.max_age
FROM job AS j JOIN body AS b ON b.n = j.n JOIN queue AS q ON q.name = j.queue
WHERE j.state = 'queued' AND j.expires_at <= :now ORDER BY j.expires_at LIMIT :limit

-- name: prunable_numbers
SELECT coalesce(json_agg(n), '[]')::text FROM (
  SELECT j.n FROM queue AS q CROSS JOIN LATERAL (
    SELECT n FROM job WHERE job.queue = q.name AND job.state IN ('completed', 'cancelled')
      AND job.finished_at < :now - CASE WHEN q.rules IS NULL THEN :keep_completed ELSE (q.rules::json->>'keep_completed')::double precision END
    LIMIT :limit) AS j
  LIMIT :limit
) AS old

-- name: delete_jobs
DELETE FROM job WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: delete_bodies
DELETE FROM body WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: delete_endings
DELETE FROM ending WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: delete_history
DELETE FROM history WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: delete_effects
DELETE FROM effect WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: delete_keys
DELETE FROM idempotency WHERE (queue, key) IN (
  SELECT queue, key FROM idempotency WHERE until <= :now LIMIT :limit FOR UPDATE SKIP LOCKED
)

-- name: delete_journal
-- Times rise with the numbers, so it looks at the oldest rows only. The newest stays: numbering goes on from it.
DELETE FROM journal WHERE seq IN (
  SELECT seq FROM (SELECT seq, at FROM journal ORDER BY seq LIMIT :limit) AS old WHERE at < :before
) AND seq < (SELECT max(seq) FROM journal)

-- name: delete_workers
-- What a gone worker claimed still counts: its tallies become its queues' own.
WITH gone AS (
  DELETE FROM worker WHERE beat_at < :before
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.worker = worker.id AND job.state = 'running') RETURNING id
), freed AS (
  DELETE FROM tally USING gone WHERE tally.worker = gone.id RETURNING tally.queue, tally.claims, tally.claimed_at
)
INSERT INTO tally (queue, worker, claims, claimed_at)
SELECT queue, '', sum(claims), max(claimed_at) FROM freed GROUP BY queue ORDER BY queue
ON CONFLICT (queue, worker) DO UPDATE
SET claims = tally.claims + excluded.claims, claimed_at = greatest(tally.claimed_at, excluded.claimed_at)

-- name: job_by_id
-- An id that another job answers for gives that job.
SELECT * FROM job_row WHERE id = coalesce((SELECT owner FROM alias WHERE alias.id = :id), :id)

-- name: list_jobs
SELECT * FROM job_row
WHERE n < :before AND (:queue::text IS NULL OR queue = :queue) AND (:state::text IS NULL OR state = :state)
ORDER BY n DESC LIMIT :limit

-- name: history_of
SELECT n, entry FROM history WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) ORDER BY n, line

-- name: published_rules
SELECT q.rules FROM queue AS q
WHERE q.name = :queue AND (q.rules IS NOT NULL OR EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name))

-- name: queue_names
SELECT name FROM queue

-- name: last_journal_number
-- Grows with every commit that told something, whether it is numbered yet or not.
SELECT coalesce((SELECT max(seq) FROM journal), 0) + (SELECT count(*) FROM told)

-- name: queue_facts
SELECT q.name, q.rules, q.paused, (SELECT max(t.claimed_at) FROM tally AS t WHERE t.queue = q.name),
  (SELECT count(*) FROM (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'queued' AND j.ready_at IS NOT NULL LIMIT :most) AS due),
  (SELECT count(*) FROM (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state IN ('dead', 'held') AND j.finished_at IS NOT NULL LIMIT :most) AS letters),
  (SELECT min(j.ready_at) FROM job AS j WHERE j.queue = q.name AND j.state = 'queued' AND j.ready_at IS NOT NULL),
  EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name)
FROM queue AS q

-- name: late_jobs
-- Due, but no claim has come by since to make them claimable.
SELECT queue, count(*), min(due_at) FROM (
  SELECT queue, due_at FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now LIMIT :most
) AS late GROUP BY queue

-- name: unknown_handlers
-- The handlers that waiting jobs name and nobody has declared: of claimable ones by a loose scan of the index, of others
-- among so many that come due first or are parked.
WITH RECURSIVE named (queue, handler) AS (
  (SELECT queue, handler FROM job WHERE state = 'queued' AND ready_at IS NOT NULL ORDER BY queue, handler LIMIT 1)
  UNION ALL
  SELECT following.queue, following.handler FROM named CROSS JOIN LATERAL (
    SELECT j.queue, j.handler FROM job AS j
    WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND (j.queue, j.handler) > (named.queue, named.handler)
    ORDER BY j.queue, j.handler LIMIT 1) AS following
)
SELECT queue, handler FROM (
  SELECT queue, handler FROM named
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
-- What is in force, under the names a worker declares it by: queue or queue/handler.
SELECT name, rules FROM queue WHERE rules IS NOT NULL
UNION ALL
SELECT queue || '/' || name,
  json_build_object('queue', queue, 'name', name, 'replay_mode', replay_mode, 'risk', risk, 'timeout', timeout)::text FROM handler

-- name: live_workers
SELECT id, host, pid, queues, declares, started_at, beat_at FROM worker WHERE boot = :boot AND beat_at > :since

-- name: holder_of_job
SELECT greatest(coalesce(w.beat_at, 0), j.claimed_at), j.lease, coalesce(w.boot, :boot) = :boot
FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker WHERE j.n = :n AND j.state = 'running'

-- name: abandoned_jobs
SELECT j.queue, count(*) FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
WHERE j.state = 'running' AND (w.boot <> :boot OR greatest(coalesce(w.beat_at, 0), j.claimed_at) <= :since)
GROUP BY j.queue

-- name: overdue_jobs
SELECT queue, count(*) FROM job WHERE state = 'running' AND claimed_at + timeout < :now GROUP BY queue

-- name: ask_to_stop
UPDATE job SET cancelling = 1 WHERE n = (SELECT n FROM body WHERE id = :id) AND state = 'running' RETURNING queue

-- name: gate_of_job
SELECT j.thread_gate FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = :id AND j.thread_gate IS NOT NULL

-- name: hurry_job
UPDATE job SET due_at = least(due_at, :now), ready_at = :now
WHERE n = (SELECT n FROM body WHERE id = :id) AND state = 'queued' AND ready_at IS NULL AND parked_on IS NULL
RETURNING n, queue, thread_gate

-- name: unwanted_numbers
SELECT n FROM job WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) AND cancelling = 1

-- name: pause_queue
UPDATE queue SET paused = :paused::boolean::integer WHERE name = :queue RETURNING name

-- name: list_letters
SELECT * FROM job_row
WHERE state IN ('dead', 'held') AND finished_at IS NOT NULL AND n < :before
  AND (:queue::text IS NULL OR queue = :queue)
  AND (:reason_code::text IS NULL OR failure::json->>'reason_code' = :reason_code)
  AND (:failure_class::text IS NULL OR failure::json->>'class' = :failure_class)
  AND (:landed::text IS NULL OR failure::json->>'landed' = :landed)
  AND (:replay_status::text IS NULL OR triage::json->>'replay_status' = :replay_status)
  AND (:fingerprint::text IS NULL OR fingerprint = :fingerprint)
  AND (:finished_before::double precision IS NULL OR finished_at < :finished_before)
ORDER BY n DESC LIMIT :limit

-- name: journal_after
SELECT seq, at, entries FROM journal WHERE seq > :after ORDER BY seq LIMIT :limit

-- name: counters
SELECT queue, name, sum(value)::bigint FROM (
  SELECT queue, name, value FROM counter UNION ALL SELECT queue, name, value FROM counted
) AS parts GROUP BY queue, name

-- name: queue_counts
-- Each branch walks one partial index; counting stops at the bound.
SELECT queue, 'running', count(*) FROM (SELECT queue FROM job WHERE state = 'running' LIMIT :most) AS running GROUP BY queue
UNION ALL
SELECT queue, 'scheduled', count(*) FROM (
  SELECT queue FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at > :now LIMIT :most
) AS scheduled GROUP BY queue
UNION ALL
SELECT queue, 'parked', count(*) FROM (
  SELECT queue FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :most
) AS parked GROUP BY queue

-- name: thread_members
-- Field order is that of Member. Their rows are locked: whoever decides by what they are must find them so when it writes.
SELECT j.n, j.token, b.id, j.handler, j.state, j.priority, j.landed, coalesce(b.first_seen_at, b.created_at),
  j.parked_on, j.asked_expiry, b.coalesced, b.created_at
FROM job AS j JOIN body AS b ON b.n = j.n WHERE j.thread_gate = :gate AND j.finished_at IS NULL ORDER BY j.n FOR UPDATE OF j

-- name: state_of
-- The job itself, or the one that took it in, which may be gone by now.
SELECT a.owner, j.state FROM alias AS a LEFT JOIN body AS b ON b.id = a.owner LEFT JOIN job AS j ON j.n = b.n WHERE a.id = :id
UNION ALL
SELECT b.id, j.state FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = :id

-- name: body_of
SELECT payload, idempotency_key, details FROM body WHERE n = :n

-- name: fold_body
UPDATE body SET payload = :payload, idempotency_key = :key, details = :details, coalesced = :coalesced WHERE n = :n

-- name: fold_job
UPDATE job SET priority = greatest(priority, :priority), due_at = least(due_at, :due_at),
  asked_expiry = :asked_expiry::double precision,
  expires_at = least(:asked_expiry::double precision, entered_at + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue))
WHERE n = :n

-- name: hand_key_over
UPDATE idempotency SET id = :id WHERE queue = :queue AND key = :key

-- name: write_aliases
-- Which job answers for an id: its own, or the one that took it in. The first word counts.
INSERT INTO alias (id, owner, at)
SELECT r->>0, r->>1, (r->>2)::double precision FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (id) DO NOTHING

-- name: known_aliases
SELECT id FROM alias WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))

-- name: delete_aliases
DELETE FROM alias WHERE id IN (
  SELECT a.id FROM alias AS a WHERE a.at < :before AND NOT EXISTS (SELECT 1 FROM body AS b WHERE b.id = a.owner) LIMIT :limit
)

-- name: enter_thread
UPDATE body SET thread_key = :thread_key, first_seen_at = :first_seen_at::double precision WHERE n = :n

-- name: raise_priority
UPDATE job SET priority = greatest(priority, :priority) WHERE n = :n

-- name: join_thread
UPDATE job SET thread_gate = :gate, parked_on = :parked_on::text,
  ready_at = CASE WHEN :parked_on::text IS NULL THEN ready_at END
WHERE n = :n

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
  AND EXISTS (SELECT 1 FROM job AS own WHERE own.n = :n AND own.handler = j.handler AND own.landed IS DISTINCT FROM 'maybe')
ORDER BY j.n DESC LIMIT 1

-- name: unpark_job
UPDATE job SET parked_on = NULL, ready_at = :now WHERE n = :n

-- name: due_in_threads
SELECT n, thread_gate FROM job
WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now AND thread_gate IS NOT NULL
ORDER BY due_at LIMIT :limit

-- name: promote_job
UPDATE job SET ready_at = due_at
WHERE n = :n AND state = 'queued' AND ready_at IS NULL AND parked_on IS NULL

-- name: recent_fallbacks
SELECT c.queue, sum(c.value)::bigint FROM (
  SELECT queue, name, value FROM counter UNION ALL SELECT queue, name, value FROM counted
) AS c JOIN upkeep AS u ON u.name = 'fallback ' || c.queue
WHERE c.name = 'fallback' AND u.at > :since GROUP BY c.queue

-- name: count_due
SELECT count(*) FROM (
  SELECT 1 FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND queue = :queue ORDER BY handler, priority LIMIT :most
) AS due

-- name: known_ids
SELECT id FROM body WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))

-- name: forget_keys
DELETE FROM idempotency WHERE until IS NULL AND id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))

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
UPDATE job SET state = 'held', finished_at = :now, ready_at = NULL, parked_on = NULL, worker = NULL, landed = :landed::text,
  token = token + 1
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: drop_gates
DELETE FROM gate WHERE kind = 'thread'

-- name: contents
-- What a copy must hold as well: the rows of each table, and the jobs in each state.
SELECT 'jobs', count(*) FROM job UNION ALL SELECT 'bodies', count(*) FROM body UNION ALL SELECT 'endings', count(*) FROM ending
UNION ALL SELECT 'history', count(*) FROM history UNION ALL SELECT 'keys', count(*) FROM idempotency
UNION ALL SELECT 'journal', coalesce(max(seq), 0) FROM journal UNION ALL SELECT state, count(*) FROM job GROUP BY state

-- name: silent_jobs
-- No path to silence: accepted jobs that nothing moves and no reason is given for, by queue; each kind is looked for among
-- so many jobs. What is final, due later, or waits for an earlier step is none of them. `:since` is two sweeps ago.
WITH seen AS (
  SELECT q.name, coalesce((SELECT max(t.claimed_at) FROM tally AS t WHERE t.queue = q.name), 0) AS claimed_at FROM queue AS q
), silent (queue, number) AS (
  -- Due, in a queue that nobody claimed from since.
  SELECT q.name, (SELECT count(*) FROM (
    SELECT j.ready_at FROM job AS j WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.queue = q.name LIMIT :most
  ) AS due WHERE ready_at <= :since)
  FROM seen AS q WHERE q.claimed_at < :since
  UNION ALL
  SELECT j.queue, 1 FROM (
    SELECT queue FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :since LIMIT :most
  ) AS j JOIN seen AS q ON q.name = j.queue AND q.claimed_at < :since
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
    OR greatest(coalesce(w.beat_at, 0), j.claimed_at) + j.lease < :since)
  UNION ALL
  -- A letter without a reason.
  SELECT j.queue, 1 FROM (
    SELECT n, queue FROM job WHERE state IN ('dead', 'held') AND finished_at IS NOT NULL LIMIT :most
  ) AS j LEFT JOIN ending AS e ON e.n = j.n WHERE e.failure IS NULL
)
SELECT queue, sum(number)::bigint FROM silent GROUP BY queue HAVING sum(number) > 0
