-- Named statements of the PostgreSQL dialect: the same names as SQLite's, in the same order.
-- `:rows` is a batch as one JSON text, an array for each row; `:numbers` and their like are JSON arrays.
-- Locks are taken in one order by all: gates by name, then jobs by number; a claim waits for nobody.

-- name: lock_gates
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || gate, 57)) FROM jsonb_array_elements_text(:gates::jsonb) AS gate

-- name: try_gate
SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' ' || :gate, 57))

-- name: try_gates
SELECT gate FROM jsonb_array_elements_text(:gates::jsonb) AS gate
WHERE pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' ' || gate, 57))

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
SELECT r->>2, k.id, k.fingerprint, j.state, k.until IS NOT NULL
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

-- name: date_bodies
UPDATE body SET first_seen_at = (r->>1)::double precision FROM jsonb_array_elements(:rows::jsonb) AS r WHERE n = (r->>0)::bigint

-- name: bodies_of
SELECT n, id FROM body WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: insert_jobs
-- One hot row for each of these bodies, all alike.
INSERT INTO job (n, queue, handler, priority, state, due_at, ready_at, entered_at, budget, asked_lease, asked_expiry, expires_at)
SELECT n::bigint, :queue, :handler, :priority, 'queued', :due_at, :ready_at::double precision, :now, :budget::integer,
  :asked_lease::double precision, :asked_expiry::double precision, :expires_at::double precision
FROM jsonb_array_elements_text(:numbers::jsonb) AS e(n)

-- name: promote_due
WITH due AS MATERIALIZED (
  SELECT n FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now AND thread_gate IS NULL
  ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
)
UPDATE job SET ready_at = due_at FROM due WHERE job.n = due.n

-- name: next_due
SELECT min(due_at), (SELECT min(opens_at) FROM gate WHERE opens_at IS NOT NULL)
FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL

-- name: queue_rules
SELECT name, rules, paused, coalesce((SELECT sum(claims) FROM tally WHERE tally.queue = name), 0)::bigint, EXISTS (
    SELECT 1 FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL AND job.queue = name),
  (SELECT coalesce(snapshot, 'broken: ' || problem) FROM policy)
FROM queue WHERE name = ANY (ARRAY(SELECT jsonb_array_elements_text(:queues::jsonb)))

-- name: lanes
-- The distinct handlers and priorities that have claimable jobs, by a loose scan of the index.
WITH RECURSIVE lane (handler, priority) AS (
  SELECT named, (SELECT priority FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue AND handler = named
                 ORDER BY priority DESC LIMIT 1)
  FROM jsonb_array_elements_text(:handlers::jsonb) AS named
  UNION ALL
  SELECT handler, (SELECT j.priority FROM job AS j
                   WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.suspect IS NULL AND j.queue = :queue
                     AND j.handler = lane.handler AND j.priority < lane.priority
                   ORDER BY j.priority DESC LIMIT 1)
  FROM lane WHERE priority IS NOT NULL
)
SELECT handler, priority FROM lane WHERE priority IS NOT NULL

-- name: claim_lane
-- In one lane the order by boosted priority and the order by waiting time are the same.
WITH chosen AS MATERIALIZED (
  SELECT n, ready_at FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue
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
    WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue
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

-- name: suspect_lanes
-- The handlers and priorities of suspects: as `lanes`, of few jobs.
SELECT DISTINCT handler, priority FROM job
WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL AND queue = :queue
  AND handler = ANY (ARRAY(SELECT jsonb_array_elements_text(:handlers::jsonb)))

-- name: claim_suspects
-- The longest waiting first: they kept their place in the line.
WITH chosen AS MATERIALIZED (
  SELECT n, ready_at FROM job
  WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL AND queue = :queue
    AND handler = ANY (ARRAY(SELECT jsonb_array_elements_text(:handlers::jsonb)))
  ORDER BY ready_at, n LIMIT :wanted FOR UPDATE SKIP LOCKED
)
SELECT coalesce(json_agg(n ORDER BY ready_at, n), '[]')::text FROM chosen

-- name: handler_stamps
SELECT name, replay_mode, timeout, risk FROM handler WHERE queue = :queue

-- name: take_jobs
-- Attempt and token are raised before the handler runs: a payload that kills its worker is counted.
UPDATE job SET state = 'running', ready_at = NULL, attempts = attempts + 1, token = token + 1, worker = :worker,
  claimed_at = :now, lease = coalesce(asked_lease, :lease),
  replay_mode = :replay_mode, timeout = :timeout::double precision,
  max_attempts = greatest(round_start, progress_start) + coalesce(budget, :attempts)
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) AND handler = :handler

-- name: held_claims
-- Field order is that of the Claim struct. Effects are read from a token on: a first attempt has none yet.
-- A receipt with more than so many bytes stays here until a handler asks for it.
SELECT coalesce(json_agg(json_build_array(j.n, j.token, b.id, j.queue, j.handler, j.worker, b.payload, j.attempts, j.max_attempts,
  j.round_start, j.lease, j.timeout, j.replay_mode, j.claimed_at, j.entered_at, j.expires_at, b.idempotency_key,
  b.details::json, j.thread_gate, b.coalesced::json, j.landed, j.occupies::json, CASE WHEN j.token > :since THEN (
    SELECT json_agg(json_build_array(f.name, f.state,
      CASE WHEN f.state = 'done' AND octet_length(f.receipt) > :most THEN NULL ELSE f.receipt END,
      f.verdict, f.late, CASE WHEN f.state = 'done' AND octet_length(f.receipt) > :most THEN octet_length(f.receipt) ELSE 0 END))
    FROM effect AS f WHERE f.n = j.n) END,
  coalesce(b.first_seen_at, b.created_at),
  CASE WHEN j.token > :since THEN coalesce((SELECT g.replays FROM ending AS g WHERE g.n = j.n), 0) ELSE 0 END, j.pending, j.due_at,
  CASE WHEN j.token > :since AND j.deferrals > 0 THEN (SELECT count(*) FROM history AS h
    WHERE h.n = j.n AND h.entry::json->>'refused' = 'true' AND h.line > coalesce((SELECT max(o.line) FROM history AS o WHERE o.n = j.n
      AND o.entry::json->>'refused' IS NULL AND (o.entry::json->>'class' IS NOT NULL OR o.entry::json->>'reason_code' = 'replayed')), -1)) ELSE 0 END,
  j.progress_start, j.failed_looks,
  CASE WHEN j.token > :since AND EXISTS (SELECT 1 FROM effect AS f WHERE f.n = j.n AND f.done_in = j.token) THEN 1 ELSE 0 END, j.suspect
  ) ORDER BY e.place), '[]')::text
FROM jsonb_array_elements_text(:numbers::jsonb) WITH ORDINALITY AS e(n, place)
JOIN job AS j ON j.n = e.n::bigint JOIN body AS b ON b.n = j.n

-- name: read_gates
-- Field order is that of gates.Row.
SELECT key, kind, holder, capacity, used, opens_at, detail FROM gate WHERE key = ANY (ARRAY(SELECT jsonb_array_elements_text(:gates::jsonb)))

-- name: destination_gates
SELECT key, kind, holder, capacity, used, opens_at, detail FROM gate WHERE kind = 'breaker'
UNION ALL SELECT key, kind, holder, capacity, used, opens_at, detail FROM gate WHERE kind = 'hold'

-- name: candidates
SELECT j.n, j.handler, b.payload, j.occupies
FROM jsonb_array_elements_text(:numbers::jsonb) WITH ORDINALITY AS e(n, place)
JOIN job AS j ON j.n = e.n::bigint JOIN body AS b ON b.n = j.n ORDER BY e.place

-- name: park_jobs
-- What may not start is parked on sight: it spends no attempt, and leaves the claim's index.
UPDATE job SET parked_on = r->>1, ready_at = NULL, occupies = r->>2, deferrals = deferrals + (r->>3)::integer
FROM jsonb_array_elements(:rows::jsonb) AS r WHERE job.n = (r->>0)::bigint

-- name: occupy_gates
UPDATE job SET occupies = r->>1 FROM jsonb_array_elements(:rows::jsonb) AS r WHERE job.n = (r->>0)::bigint

-- name: write_gates
INSERT INTO gate (key, kind, holder, capacity, used, opens_at, detail)
SELECT r->>0, r->>1, (r->>2)::bigint, (r->>3)::integer, (r->>4)::integer, (r->>5)::double precision, r->>6
FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (key) DO UPDATE
SET holder = excluded.holder, capacity = excluded.capacity, used = excluded.used, opens_at = excluded.opens_at, detail = excluded.detail

-- name: forget_gates
-- A gate that somebody waits at stays.
DELETE FROM gate WHERE key = ANY (ARRAY(SELECT jsonb_array_elements_text(:gates::jsonb)))
  AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.parked_on = gate.key)

-- name: due_gates
SELECT key FROM gate WHERE opens_at <= :now ORDER BY opens_at LIMIT :limit

-- name: next_in_line
-- The oldest jobs that wait at each of these gates, behind a number, but for those in somebody else's hands.
SELECT r->>0, line.n, line.queue FROM jsonb_array_elements(:lines::jsonb) AS r CROSS JOIN LATERAL (
  SELECT n, queue FROM job WHERE state = 'queued' AND parked_on = r->>0 AND n > (r->>2)::bigint
  ORDER BY n LIMIT least((r->>1)::integer, :most::integer) FOR UPDATE SKIP LOCKED) AS line

-- name: let_through
-- Claimable, at the end of the line: that is round robin between the gates of a queue.
UPDATE job SET parked_on = NULL, ready_at = (r->>1)::double precision,
  occupies = CASE WHEN r->>2 IS NULL THEN occupies ELSE (coalesce(occupies, '[]')::jsonb || jsonb_build_array(r->>2))::text END
FROM jsonb_array_elements(:rows::jsonb) AS r WHERE job.n = (r->>0)::bigint

-- name: anyone_parked
SELECT EXISTS (SELECT 1 FROM job WHERE state = 'queued' AND parked_on = :gate)

-- name: all_gates
SELECT key, kind, holder, capacity, used, opens_at, detail FROM gate WHERE kind <> 'thread' ORDER BY kind <> 'probe', key LIMIT :limit

-- name: doubtful_gates
-- Limits whose count is not what is taken, or that have room for who waits; probes that nobody has; rates that open for nobody.
-- Whether they are wrong is judged once they are locked.
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
-- By what runs, and by what was let through and waits for its claim.
SELECT e, count(*) FROM (
  SELECT occupies FROM job WHERE state = 'running' AND occupies IS NOT NULL
  UNION ALL
  SELECT occupies FROM job WHERE state = 'queued' AND occupies IS NOT NULL
) AS j CROSS JOIN jsonb_array_elements_text(j.occupies::jsonb) AS e GROUP BY e

-- name: stale_tickets
SELECT n FROM job WHERE state = 'queued' AND occupies IS NOT NULL AND ready_at < :before LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: drop_tickets
UPDATE job SET occupies = NULL WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: unpark_lost
-- Parked at a gate that is not there any more. A thread's jobs are not among them: threads keep their own books.
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

-- name: count_claims
INSERT INTO tally (queue, worker, claims, claimed_at) VALUES (:queue, :worker, :claims, :now)
ON CONFLICT (queue, worker) DO UPDATE SET claims = tally.claims + excluded.claims, claimed_at = excluded.claimed_at

-- name: standing_states
-- The state of each job that still has its mover's token, in the order of the moves; null where the token moved on.
-- And what of them takes places of gates, or is a step of a workflow.
SELECT coalesce(json_agg(j.state ORDER BY e.place), '[]')::text,
  coalesce(json_agg(json_build_array(j.n, j.occupies::json, CASE WHEN j.pending IS NOT NULL THEN (
    SELECT json_build_array(b.workflow, b.step, b.children) FROM body AS b WHERE b.n = j.n) END))
    FILTER (WHERE j.occupies IS NOT NULL OR j.pending IS NOT NULL), '[]')::text
FROM jsonb_array_elements(:held::jsonb) WITH ORDINALITY AS e(r, place)
LEFT JOIN job AS j ON j.n = (e.r->>0)::bigint AND j.token = (e.r->>1)::integer

-- name: move_jobs
-- The one statement that moves jobs, all alike. Their tokens were checked in this transaction, by standing_states.
-- What may have landed once may have landed for good, however later attempts end.
UPDATE job SET
  state = :target,
  due_at = coalesce(:due_at::double precision, due_at),
  ready_at = CASE WHEN :in_place THEN due_at ELSE :ready_at::double precision END,
  finished_at = :finished_at::double precision,
  attempts = attempts + :spends,
  deferrals = deferrals + :defers,
  landed = CASE WHEN landed = 'maybe' THEN landed ELSE coalesce(:landed::text, landed) END,
  parked_on = NULL,
  occupies = NULL,
  suspect = CASE WHEN :suspect::integer IS NULL THEN suspect ELSE nullif(:suspect::integer, 0) END,
  worker = NULL
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: complete_jobs
-- Complete the first attempts of plain jobs; what is given back was moved now. The token fences, and whatever makes a job more than plain
-- (a place of a gate, a thread, a workflow) stands in its row: such a job is left to move_jobs.
WITH held AS MATERIALIZED (
  SELECT n FROM job WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))
    AND token = 1 AND state = 'running' AND occupies IS NULL AND thread_gate IS NULL AND pending IS NULL AND suspect IS NULL
  ORDER BY n FOR NO KEY UPDATE)
UPDATE job SET state = 'completed', ready_at = NULL, finished_at = :now, worker = NULL
FROM held WHERE job.n = held.n RETURNING job.n

-- name: open_round
-- A replay begins anew: its attempts count from here, its age too, and whoever held the old token is fenced. An expiry
-- that is past does not count any more: whoever replays it wants it all the same.
UPDATE job SET round_start = attempts, max_attempts = NULL, entered_at = :now, token = token + 1, cancelling = 0, failed_looks = 0,
  asked_expiry = CASE WHEN asked_expiry > :now THEN asked_expiry END,
  expires_at = least(CASE WHEN asked_expiry > :now THEN asked_expiry END,
    :now + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue))
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: keep_progress
-- An attempt that got further opens a round: as many may follow it without getting further as a round has.
UPDATE job SET max_attempts = attempts + max_attempts - greatest(round_start, progress_start), progress_start = attempts
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: count_looks
UPDATE job SET failed_looks = CASE WHEN :failed THEN failed_looks + 1 ELSE 0 END
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: standing_effects
-- For each effect: whose job it is and under which token that runs (null if it does not), and what the ledger has of it.
SELECT b.id, CASE WHEN j.state = 'running' THEN j.token END, f.state, f.receipt, f.verdict, f.late, f.token
FROM jsonb_array_elements(:effects::jsonb) WITH ORDINALITY AS e(r, place)
LEFT JOIN job AS j ON j.n = (e.r->>0)::bigint LEFT JOIN body AS b ON b.n = j.n
LEFT JOIN effect AS f ON f.n = (e.r->>0)::bigint AND f.name = e.r->>1
ORDER BY e.place

-- name: write_effects
INSERT INTO effect (n, name, state, receipt, verdict, token, at, late, attempt, done_in)
SELECT (r->>0)::bigint, r->>1, r->>2, r->>3, r->>4, (r->>5)::integer, (r->>6)::double precision, (r->>7)::integer, (r->>8)::integer,
  (r->>9)::integer
FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (n, name) DO UPDATE
SET state = excluded.state, receipt = excluded.receipt, verdict = excluded.verdict, token = excluded.token,
  at = excluded.at, late = excluded.late, attempt = excluded.attempt, done_in = coalesce(effect.done_in, excluded.done_in)

-- name: drop_effects
DELETE FROM effect WHERE (n, name) IN (SELECT (r->>0)::bigint, r->>1 FROM jsonb_array_elements(:effects::jsonb) AS r)

-- name: write_verdicts
-- What a look saw; an intent that is found done is closed. A person's word that it may be done again stays until then.
INSERT INTO effect (n, name, state, receipt, verdict, token, at, attempt)
SELECT (r->>0)::bigint, r->>1, r->>2, r->>3, r->>4, (r->>5)::integer, (r->>6)::double precision, (r->>7)::integer
FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (n, name) DO UPDATE
SET verdict = CASE WHEN effect.verdict = 'asked' AND excluded.verdict <> 'verified' THEN effect.verdict ELSE excluded.verdict END,
  receipt = CASE effect.state WHEN 'seen' THEN excluded.receipt WHEN 'done' THEN coalesce(effect.receipt, excluded.receipt)
    ELSE coalesce(excluded.receipt, effect.receipt) END,
  state = CASE WHEN effect.state = 'begun' AND excluded.verdict = 'verified' THEN 'done' ELSE effect.state END,
  done_in = coalesce(effect.done_in, CASE WHEN effect.state = 'begun' AND excluded.verdict = 'verified' THEN excluded.token END),
  at = excluded.at, attempt = excluded.attempt

-- name: reopen_effects
-- Its handler could not find what counts as done. The receipt stays: a look that finds it makes it count again.
UPDATE effect SET state = 'begun', verdict = :doubted
WHERE state = 'done' AND (n, name) IN (SELECT (r->>0)::bigint, r->>1 FROM jsonb_array_elements(:effects::jsonb) AS r)

-- name: release_intents
-- Whoever has a job run again takes it upon themselves that what was begun may be done again.
UPDATE effect SET verdict = :asked
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) AND state = 'begun'

-- name: count_replays
UPDATE ending SET replays = replays + 1, fingerprint = NULL, replay_at = NULL, refused_under = NULL,
  triage = (triage::jsonb || '{"replay_status": "replayed", "replay_at": null}')::text
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: write_endings
INSERT INTO ending (n, result, warning, failure, triage, superseded_by, fingerprint, policy_snapshot, replay_at)
SELECT (r->>0)::bigint, r->>1, r->>2, r->>3, r->>4, r->>5, r->>6, r->>7, (r->>8)::double precision FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (n) DO UPDATE
SET result = excluded.result, warning = excluded.warning, failure = excluded.failure,
  triage = coalesce(excluded.triage, ending.triage), superseded_by = excluded.superseded_by,
  fingerprint = coalesce(excluded.fingerprint, ending.fingerprint),
  policy_snapshot = coalesce(excluded.policy_snapshot, ending.policy_snapshot), replay_at = excluded.replay_at, refused_under = NULL

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

-- name: chain_head
-- Whoever writes a link holds this until its commit: the links of many hosts are one chain. It is locked last of all.
SELECT store, seq, hash FROM chain FOR UPDATE

-- name: begin_chain
INSERT INTO chain (only_one, store, seq, hash) VALUES (1, replace(gen_random_uuid()::text, '-', ''), -1, repeat('0', 64))
ON CONFLICT (only_one) DO NOTHING

-- name: write_links
INSERT INTO audit (seq, at, entries, previous, hash)
SELECT (r->>0)::bigint, r->>1, r->>2, r->>3, r->>4 FROM jsonb_array_elements(:rows::jsonb) AS r

-- name: move_head
UPDATE chain SET seq = :seq, hash = :hash

-- name: peek_head
SELECT store, seq, hash FROM chain

-- name: read_links
SELECT seq, at, entries, previous, hash FROM audit
WHERE seq > :after AND (:job = '' OR position(:job IN entries) > 0) AND (:kind = '' OR position(:kind IN entries) > 0)
ORDER BY seq LIMIT :limit

-- name: link_hashes
SELECT seq, hash FROM audit WHERE seq = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: try_journal
SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' journal', 57))

-- name: lock_journal
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' journal', 57))

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

-- name: lock_layers
SELECT name, rules, declared, overlay FROM queue WHERE name = ANY (ARRAY(SELECT jsonb_array_elements_text(:queues::jsonb)))
ORDER BY name FOR UPDATE

-- name: write_layers
UPDATE queue SET declared = e.value->>'declared', overlay = e.value->>'overlay' FROM jsonb_each(:layers::jsonb) AS e WHERE queue.name = e.key

-- name: changed_ages
SELECT e.key FROM jsonb_each(:queues::jsonb) AS e JOIN queue AS q ON q.name = e.key
WHERE q.max_age IS DISTINCT FROM (e.value->>'max_age')::double precision

-- name: changed_gates
SELECT e.key FROM jsonb_each(:queues::jsonb) AS e JOIN queue AS q ON q.name = e.key
WHERE q.rules IS NOT NULL AND (q.rules::jsonb->'concurrency' IS DISTINCT FROM e.value->'concurrency'
  OR q.rules::jsonb->'rate' IS DISTINCT FROM e.value->'rate' OR q.rules::jsonb->'gate' IS DISTINCT FROM e.value->'gate'
  OR q.rules::jsonb->'breaker' IS DISTINCT FROM e.value->'breaker')

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

-- name: age_marks
-- Locked before any job: whoever publishes other rules meanwhile waits, and marks anew.
SELECT name FROM upkeep WHERE name LIKE 'age %' ORDER BY name FOR UPDATE SKIP LOCKED

-- name: numbers_behind
SELECT max(n), count(*) FROM (SELECT n FROM job WHERE n > :after ORDER BY n LIMIT :limit) AS bite

-- name: restamp_expiry
-- Rules in force are the last published ones, also for what already waits. Whoever holds a job may hold its thread's others
-- too, and waits for none of them: nor does this.
WITH waiting AS MATERIALIZED (
  SELECT n FROM job WHERE n > :after AND n <= :last AND queue = :queue AND state IN ('queued', 'running') FOR UPDATE SKIP LOCKED
)
UPDATE job SET expires_at = least(asked_expiry, entered_at + (SELECT max_age FROM queue WHERE name = :queue))
FROM waiting WHERE job.n = waiting.n

-- name: unstamped
SELECT EXISTS (
  SELECT 1 FROM job WHERE n > :after AND n <= :last AND queue = :queue AND state IN ('queued', 'running')
    AND expires_at IS DISTINCT FROM least(asked_expiry, entered_at + (SELECT max_age FROM queue WHERE name = :queue)))

-- name: drop_rates
DELETE FROM gate WHERE kind IN ('rate', 'gate')
  AND (key = ANY (ARRAY(SELECT jsonb_array_elements_text(:gates::jsonb))) OR starts_with(key, :below))

-- name: unpark_queue
UPDATE job SET parked_on = NULL, ready_at = :now
WHERE state = 'queued' AND parked_on IS NOT NULL AND parked_on NOT LIKE 'thread:%' AND queue = :queue

-- name: publish_handlers
INSERT INTO handler (queue, name, replay_mode, risk, timeout, declared_at, consent, when_landed)
SELECT r->>'queue', r->>'name', r->>'replay_mode', r->>'risk', (r->>'timeout')::double precision, :now,
  coalesce((r->>'consent')::boolean, false)::integer, r->>'when_landed'
FROM jsonb_array_elements(:handlers::jsonb) AS r ORDER BY r->>'queue', r->>'name'
ON CONFLICT (queue, name) DO UPDATE
SET replay_mode = excluded.replay_mode, risk = excluded.risk, timeout = excluded.timeout, declared_at = excluded.declared_at,
  consent = excluded.consent, when_landed = excluded.when_landed

-- name: beat
INSERT INTO worker (id, host, pid, boot, queues, declares, started_at, beat_at, process)
VALUES (:id, :host, :pid, :boot, :queues, :declares, :now, :now, :process)
ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at, queues = excluded.queues, declares = excluded.declares,
  process = excluded.process, died_at = NULL, ran = NULL, held = NULL, company = NULL

-- name: held_by_worker
SELECT j.n, j.token, b.id, j.queue, j.thread_gate, j.cancelling FROM job AS j JOIN body AS b ON b.n = j.n
WHERE j.worker = :id AND j.state = 'running'

-- name: retire_worker
DELETE FROM worker WHERE id = :id AND NOT EXISTS (SELECT 1 FROM job WHERE worker = :id AND state = 'running')

-- name: upkeep_times
SELECT name, at FROM upkeep

-- name: mark_upkeep
INSERT INTO upkeep (name, at) VALUES (:name, :now) ON CONFLICT (name) DO UPDATE SET at = excluded.at

-- name: take_upkeep
-- A turn that one worker has until then, unless it gives it up or takes it again; `held` is what it has of it.
INSERT INTO upkeep (name, at) VALUES (:name, :until) ON CONFLICT (name) DO UPDATE SET at = excluded.at
WHERE upkeep.at <= :now OR upkeep.at = :held::double precision
RETURNING at

-- name: forget_upkeep
DELETE FROM upkeep WHERE name = :name

-- name: lapsed_numbers
-- A worker of an earlier boot, or whose process let go of its lock, is gone for certain; any other may only be late.
-- Its claim counts as a beat for the job.
SELECT coalesce(json_agg(n), '[]')::text FROM (
  SELECT j.n FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
  WHERE j.state = 'running'
    AND (w.boot <> :boot OR w.process = ANY (ARRAY(SELECT jsonb_array_elements_text(:dead::jsonb)))
      OR (:reclaim AND (w.id IS NULL OR greatest(w.beat_at, j.claimed_at) + j.lease < :now)))
  LIMIT :limit
) AS lapsed

-- name: note_lost
-- What a worker held is counted when it is first found dead or late, before anything is taken from it: later there is less.
-- One that is just being heard of is left alone.
WITH lost AS MATERIALIZED (
  SELECT id FROM worker
  WHERE company IS NULL AND (id = ANY (ARRAY(SELECT jsonb_array_elements_text(:workers::jsonb)))
    OR process = ANY (ARRAY(SELECT jsonb_array_elements_text(:dead::jsonb))))
  ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE worker SET
  died_at = CASE WHEN process = ANY (ARRAY(SELECT jsonb_array_elements_text(:dead::jsonb))) THEN :now::double precision END,
  held = (SELECT count(*) FROM job AS j WHERE j.state = 'running' AND j.worker = worker.id),
  company = (SELECT count(*) FROM worker AS o JOIN job AS j ON j.state = 'running' AND j.worker = o.id
             WHERE o.id = worker.id OR o.process = worker.process),
  ran = (SELECT coalesce(json_object_agg(what, number), '{}')::text FROM (
    SELECT j.queue || '/' || j.handler AS what, count(*) AS number FROM job AS j
    WHERE j.state = 'running' AND j.worker = worker.id GROUP BY j.queue, j.handler) AS held)
FROM lost WHERE worker.id = lost.id

-- name: lost_workers
-- Field order is that of Loss.
SELECT id, held, company, died_at IS NOT NULL FROM worker WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:workers::jsonb)))

-- name: stand_apart
-- One worker at a time runs the suspects of a queue, holding nothing else: the others go on.
UPDATE worker SET apart = :queue
WHERE id = :id AND NOT EXISTS (
  SELECT 1 FROM worker AS o WHERE o.apart = :queue AND o.id <> :id AND o.died_at IS NULL AND o.boot = :boot AND o.beat_at > :since)
RETURNING id

-- name: stand_back
UPDATE worker SET apart = NULL WHERE id = :id

-- name: expired_jobs
SELECT j.n, j.token, b.id, j.queue, j.thread_gate, j.entered_at, j.expires_at, q.max_age, j.handler, b.payload, b.details, j.attempts,
  coalesce(b.first_seen_at, b.created_at), coalesce((SELECT e.replays FROM ending AS e WHERE e.n = j.n), 0),
  (SELECT h.risk FROM handler AS h WHERE h.queue = j.queue AND h.name = j.handler), (SELECT h.replay_mode FROM handler AS h WHERE h.queue = j.queue AND h.name = j.handler)
FROM job AS j JOIN body AS b ON b.n = j.n JOIN queue AS q ON q.name = j.queue
WHERE j.state = 'queued' AND j.expires_at <= :now ORDER BY j.expires_at LIMIT :limit

-- name: prunable_numbers
-- A step goes with its workflow.
SELECT coalesce(json_agg(n), '[]')::text FROM (
  SELECT j.n FROM queue AS q CROSS JOIN LATERAL (
    SELECT n FROM job WHERE job.queue = q.name AND job.state IN ('completed', 'cancelled') AND job.pending IS NULL
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

-- name: walk_jobs
SELECT n FROM job WHERE n < :before ORDER BY n DESC LIMIT :most

-- name: walk_session
-- A name is looked for as it stands in JSON: no index may read that, because reading it could change.
SELECT b.n FROM body AS b
WHERE strpos(b.details, '"session":') > 0 AND substring(b.details FROM '"session":"((?:[^"\\]|\\.)*)"') = :quoted::text AND b.n < :before
ORDER BY b.n DESC LIMIT :most

-- name: walk_stopped
SELECT n FROM job WHERE state IN ('dead', 'held') AND n < :before ORDER BY n DESC LIMIT :most

-- name: walk_running
-- By the index of what runs, which is little; its order is another.
SELECT n FROM job WHERE state = 'running' AND n < :before ORDER BY n + 0 DESC LIMIT :most

-- name: matching_jobs
-- Those of some jobs that fit. `view` is lifecycle.view; a failure is what stands in a job's way now, as its view shows it.
-- Whoever sees their own only (`requester`) guesses by `q` at nothing that others brought into a job.
SELECT j.n FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
WHERE j.n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))
  AND (:queue::text IS NULL OR j.queue = :queue) AND (:state::text IS NULL OR j.state = :state)
  AND (:queues::text IS NULL OR j.queue = ANY (ARRAY(SELECT jsonb_array_elements_text(:queues::jsonb))))
  AND (:view::text IS NULL OR :view = CASE WHEN j.state <> 'queued' THEN j.state WHEN j.parked_on IS NOT NULL THEN 'parked'
    WHEN j.attempts > 0 THEN 'retry_pending' WHEN j.due_at > :now THEN 'scheduled' ELSE 'queued' END)
  AND (:session::text IS NULL OR b.details::json->>'session' = :session)
  AND (:requester::text IS NULL OR b.details::json->>'requester' = :requester
    OR EXISTS (SELECT 1 FROM json_array_elements_text(b.details::json->'also_requested_by') AS r WHERE r = :requester))
  AND (:thread_key::text IS NULL OR b.thread_key = :thread_key)
  AND (:label::text IS NULL OR CASE WHEN :label_value::text IS NULL THEN b.details::json->'labels'->>:label IS NOT NULL
    ELSE b.details::json->'labels'->>:label = :label_value END)
  AND (:reason_code::text IS NULL OR j.state NOT IN ('completed', 'cancelled') AND :reason_code IN (coalesce(
    CASE WHEN j.state IN ('dead', 'held') THEN e.failure END,
    (SELECT h.entry FROM history AS h WHERE h.n = j.n AND h.entry::json->>'class' IS NOT NULL ORDER BY h.line DESC LIMIT 1))::json->>'reason_code',
    CASE WHEN j.state IN ('dead', 'held') THEN e.failure::json->>'cause' END))
  AND (:error_kind::text IS NULL OR j.state NOT IN ('completed', 'cancelled') AND :error_kind = coalesce(
    CASE WHEN j.state IN ('dead', 'held') THEN e.failure END,
    (SELECT h.entry FROM history AS h WHERE h.n = j.n AND h.entry::json->>'class' IS NOT NULL ORDER BY h.line DESC LIMIT 1))::json->>'error_kind')
  AND (:q::text IS NULL OR strpos(b.id, :q) > 0 OR strpos(b.thread_key, :q) > 0
    OR (:requester::text IS NULL OR b.details::json#>>'{also_requested_by,0}' IS NULL)
      AND (strpos(b.idempotency_key, :q) > 0 OR strpos(b.payload, :quoted::text) > 0 OR strpos(e.failure, :quoted) > 0))

-- name: list_jobs
SELECT * FROM job_row WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) ORDER BY n DESC

-- name: history_of
SELECT n, entry FROM history WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) ORDER BY n, line

-- name: effects_of
SELECT n, name, state, CASE WHEN octet_length(receipt) > :most THEN NULL ELSE receipt END, verdict, late,
  CASE WHEN octet_length(receipt) > :most THEN octet_length(receipt) ELSE 0 END, at, attempt
FROM effect WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) ORDER BY n, name

-- name: receipt_of
SELECT receipt FROM effect WHERE n = :n AND name = :name

-- name: published_rules
SELECT q.rules FROM queue AS q
WHERE q.name = :queue AND (q.rules IS NOT NULL OR EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name))

-- name: queue_names
SELECT name FROM queue

-- name: forget_queues
-- Those that nobody declared and that have been empty and idle for a while. Jobs that are neither ready nor ended have no
-- index by queue: with many of them, nothing is forgotten.
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
-- A job may have come in the moment its queue was forgotten, by a transaction that had seen it: then it is back.
INSERT INTO queue (name)
SELECT substr(u.name, 11) FROM upkeep AS u
WHERE u.name LIKE 'forgotten %' AND (
  (SELECT 1 FROM job AS j WHERE j.queue = substr(u.name, 11) AND j.state = 'queued' AND j.ready_at IS NOT NULL ORDER BY j.queue, j.handler, j.priority LIMIT 1) IS NOT NULL
  OR (SELECT 1 FROM job AS j WHERE j.queue = substr(u.name, 11) AND j.state = 'waiting' ORDER BY j.queue LIMIT 1) IS NOT NULL
  OR (SELECT 1 FROM job AS j WHERE j.queue = substr(u.name, 11) AND j.finished_at IS NOT NULL ORDER BY j.queue, j.state, j.finished_at LIMIT 1) IS NOT NULL)
ON CONFLICT (name) DO NOTHING

-- name: delete_forgotten
DELETE FROM upkeep WHERE name LIKE 'forgotten %' AND at < :before

-- name: last_journal_number
-- Grows with every commit that told something, whether it is numbered yet or not.
SELECT coalesce((SELECT max(seq) FROM journal), 0) + (SELECT count(*) FROM told)

-- name: queue_facts
SELECT q.name, q.rules, q.paused, (SELECT max(t.claimed_at) FROM tally AS t WHERE t.queue = q.name),
  EXISTS (SELECT 1 FROM handler AS h WHERE h.queue = q.name)
FROM queue AS q

-- name: waiting_lanes
-- The distinct queues, handlers and priorities that have claimable jobs, by a loose scan of the index; and how long the
-- oldest of each has been claimable.
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

-- name: count_due_of
SELECT q.name, (SELECT count(*) FROM (
  SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.queue = q.name
  ORDER BY j.handler, j.priority LIMIT :most) AS due)
FROM jsonb_array_elements_text(:queues::jsonb) AS q (name)

-- name: count_letters_of
-- In the order of the index, each state by itself: a bitmap would read all of a queue's letters first.
SELECT q.name, (SELECT count(*) FROM (
  (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'dead' AND j.finished_at IS NOT NULL ORDER BY j.finished_at LIMIT :most)
  UNION ALL
  (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'held' AND j.finished_at IS NOT NULL ORDER BY j.finished_at LIMIT :most)
  LIMIT :most) AS letters)
FROM jsonb_array_elements_text(:queues::jsonb) AS q (name)

-- name: late_jobs
-- Due, but no claim has come by since to make them claimable.
SELECT queue, count(*), min(due_at) FROM (
  SELECT queue, due_at FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now LIMIT :most
) AS late GROUP BY queue

-- name: unknown_handlers
-- The handlers that waiting jobs name and nobody has declared: of claimable ones in all lanes, of others among so many
-- that come due first or are parked.
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
-- What is in force, under the names a worker declares it by: queue or queue/handler.
SELECT name, rules FROM queue WHERE rules IS NOT NULL
UNION ALL
SELECT queue || '/' || name,
  json_build_object('queue', queue, 'name', name, 'replay_mode', replay_mode, 'risk', risk, 'timeout', timeout,
    'consent', consent = 1, 'when_landed', when_landed)::text FROM handler

-- name: live_workers
SELECT id, host, pid, queues, declares, started_at, beat_at FROM worker WHERE boot = :boot AND beat_at > :since AND died_at IS NULL

-- name: missing_workers
-- Those that were found dead lately, and all others that have not left: whether they are alive is judged elsewhere.
-- With what they ran when they died, or hold now. Field order is that of Missing.
SELECT id, host, pid, process, beat_at, died_at IS NOT NULL OR boot <> :boot,
  (SELECT count(*) FROM job AS j WHERE j.state = 'running' AND j.worker = worker.id),
  coalesce(ran, (SELECT coalesce(json_object_agg(what, number), '{}')::text FROM (
    SELECT j.queue || '/' || j.handler AS what, count(*) AS number FROM job AS j
    WHERE j.state = 'running' AND j.worker = worker.id GROUP BY j.queue, j.handler) AS held))
FROM worker
WHERE coalesce(died_at, beat_at) > :since OR EXISTS (SELECT 1 FROM job AS j WHERE j.state = 'running' AND j.worker = worker.id)
ORDER BY id

-- name: holder_of_job
SELECT greatest(coalesce(w.beat_at, 0), j.claimed_at), j.lease, coalesce(w.boot, :boot) = :boot
FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker WHERE j.n = :n AND j.state = 'running'

-- name: abandoned_jobs
SELECT j.queue, count(*) FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
WHERE j.state = 'running' AND (w.boot <> :boot OR greatest(coalesce(w.beat_at, 0), j.claimed_at) <= :since)
GROUP BY j.queue

-- name: overdue_jobs
-- Its worker was heard after the time was over, and lately: one that was killed says nothing of what it ran.
SELECT j.queue, count(*) FROM job AS j JOIN worker AS w ON w.id = j.worker AND w.boot = :boot AND w.beat_at > :since
WHERE j.state = 'running' AND j.claimed_at + j.timeout < w.beat_at GROUP BY j.queue

-- name: waiting_suspects
-- Jobs that wait to be run alone, and since when: their own time, or the loss of the worker that ran them.
SELECT queue, count(*), min(since) FROM (
  SELECT j.queue, greatest(j.ready_at, (
    SELECT (h.entry::jsonb->>'at')::double precision FROM history AS h WHERE h.n = j.n ORDER BY h.line DESC LIMIT 1)) AS since
  FROM job AS j
  WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.suspect IS NOT NULL LIMIT :most
) AS waiting GROUP BY queue

-- name: deferred_jobs
-- What a gate other than a thread's holds back, and was due so long ago.
SELECT queue, count(*) FROM (
  SELECT j.queue, j.due_at FROM gate AS g JOIN job AS j ON j.state = 'queued' AND j.parked_on = g.key
  WHERE g.kind <> 'thread' LIMIT :most
) AS parked WHERE due_at < :before GROUP BY queue

-- name: ask_to_stop
UPDATE job SET cancelling = 1 WHERE n = (SELECT n FROM body WHERE id = :id) AND state = 'running' RETURNING n, queue, attempts

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

-- name: nth_letter
-- The newest letter that is beyond so many.
SELECT n FROM job WHERE state IN ('dead', 'held') AND n < :before ORDER BY n DESC LIMIT 1 OFFSET :most

-- name: list_letters
SELECT * FROM job_row
WHERE state IN ('dead', 'held') AND finished_at IS NOT NULL AND n < :before AND n >= :above
  AND (:queue::text IS NULL OR queue = :queue)
  AND (:reason_code::text IS NULL OR :reason_code IN (failure::json->>'reason_code', failure::json->>'cause'))
  AND (:cause::text IS NULL OR coalesce(failure::json->>'cause', failure::json->>'reason_code') = :cause)
  AND (:failure_class::text IS NULL OR failure::json->>'class' = :failure_class)
  AND (:landed::text IS NULL OR failure::json->>'landed' = :landed)
  AND (:replay_status::text IS NULL OR triage::json->>'replay_status' = :replay_status)
  AND (:fingerprint::text IS NULL OR fingerprint = :fingerprint)
  AND (:finished_before::double precision IS NULL OR finished_at < :finished_before)
  AND (:queues::text IS NULL OR queue = ANY (ARRAY(SELECT jsonb_array_elements_text(:queues::jsonb))))
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
  SELECT queue FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at > :now LIMIT :aside
) AS scheduled GROUP BY queue
UNION ALL
SELECT queue, 'parked', count(*) FROM (
  SELECT queue FROM job WHERE state = 'queued' AND parked_on IS NOT NULL LIMIT :aside
) AS parked GROUP BY queue
UNION ALL
SELECT queue, 'waiting', count(*) FROM (SELECT queue FROM job WHERE state = 'waiting' LIMIT :aside) AS waiting GROUP BY queue

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

-- name: asks_consent
SELECT 1 FROM handler WHERE queue = :queue AND name = :handler AND consent <> 0

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

-- name: old_snapshots
-- Who keeps what has ended from being cleaned away, and for how many seconds; of a replication slot nobody knows that.
(SELECT 'a transaction of ' || coalesce(nullif(application_name, ''), usename, 'somebody') || ' (pid ' || pid || ')',
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

-- name: dead_rows
SELECT n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relid = to_regclass('job')

-- name: promotion_mark
SELECT 'filling', '' FROM pg_trigger WHERE tgrelid = to_regclass('job') AND tgname = 'only_promotion'

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
SELECT j.n, b.id, j.queue, j.handler, j.token, j.attempts FROM job AS j JOIN body AS b ON b.n = j.n
WHERE j.state IN ('queued', 'running') LIMIT :limit

-- name: hold_jobs
UPDATE job SET state = 'held', finished_at = :now, ready_at = NULL, parked_on = NULL, occupies = NULL, worker = NULL, landed = :landed::text,
  token = token + 1
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: drop_gates
DELETE FROM gate

-- name: contents
-- What a copy must hold as well: the rows of each table, and the jobs in each state.
SELECT 'jobs', count(*) FROM job UNION ALL SELECT 'bodies', count(*) FROM body UNION ALL SELECT 'endings', count(*) FROM ending
UNION ALL SELECT 'history', count(*) FROM history UNION ALL SELECT 'keys', count(*) FROM idempotency
UNION ALL SELECT 'journal', coalesce(max(seq), 0) FROM journal UNION ALL SELECT state, count(*) FROM job GROUP BY state

-- name: silent_jobs
-- No path to silence: accepted jobs that nothing moves and no reason is given for, by queue; each kind is looked for among
-- so many jobs, lanes and gates. What is final, due later, or waits for an earlier step is none of them. `:since` is two
-- sweeps ago; `:lanes` are those where something has been claimable for so long. The last column says whether there are more.
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
  -- Due, in a queue that nobody claimed from since, and that no gate of its own holds back.
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
  -- Parked on a gate that is not there, or whose holder will not hand it on.
  SELECT j.queue, count(*), :some::bigint FROM (
    SELECT j.queue FROM parked JOIN job AS j ON j.state = 'queued' AND j.parked_on = parked.gate
    WHERE NOT EXISTS (
      SELECT 1 FROM gate AS g LEFT JOIN job AS h ON h.n = g.holder
      WHERE g.key = parked.gate AND (g.holder IS NULL OR h.state IN ('queued', 'running'))
        AND (g.kind <> 'limit' OR g.used > 0) AND (g.kind NOT IN ('rate', 'breaker') OR g.opens_at IS NOT NULL))
    LIMIT :some
  ) AS j GROUP BY j.queue
  UNION ALL
  -- Running for a worker that was last heard of more than a lease ago, and no sweeper came.
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

-- name: open_approvals
SELECT id, state, bound, expires_at, groups, requesters FROM approval WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) AND state IN ('pending', 'approved')

-- name: set_requesters
UPDATE approval SET requesters = :requesters WHERE id = :id AND state = 'pending'

-- name: file_approvals
INSERT INTO approval (id, n, redrive, state, asked_by, reason, requesters, groups, bound, rule, asked_at, expires_at)
SELECT r->>0, (r->>1)::bigint, r->>2, r->>3, r->>4, r->>5, r->>6, r->>7, r->>8, r->>9, (r->>10)::double precision,
  (r->>11)::double precision
FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT DO NOTHING

-- name: approval_standings
-- Whoever decides by these keeps them until its commit.
SELECT id, state FROM approval WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb))) ORDER BY id FOR UPDATE

-- name: answer_approval
UPDATE approval SET state = :target, answered_by = coalesce(:by::text, answered_by), answered_at = CASE WHEN :by::text IS NULL THEN answered_at ELSE :now END,
  answer = coalesce(:reason::text, answer)
WHERE id = :id AND state = :source
RETURNING id

-- name: void_approvals
UPDATE approval SET state = 'void', answer = :why WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) AND state IN ('pending', 'approved') RETURNING n

-- name: set_replay_status
UPDATE ending SET replay_at = NULL, refused_under = NULL,
  triage = (triage::jsonb || jsonb_build_object('replay_status', :status::text, 'replay_at', NULL,
  'approver_group', coalesce(:groups::jsonb->>0, triage::jsonb->>'approver_group'),
  'approver_groups', coalesce(nullif(:groups::jsonb, '[]'), triage::jsonb->'approver_groups', '[]')))::text
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: approval_by_id
-- Field order is that of the Approval struct, as in the next two.
SELECT a.id, a.n, a.redrive, b.id, j.queue, a.state, a.asked_by, a.reason, a.requesters, a.groups, a.bound, a.rule,
  a.asked_at, a.expires_at, a.answered_by, a.answered_at, a.answer
FROM approval AS a LEFT JOIN body AS b ON b.n = a.n LEFT JOIN job AS j ON j.n = a.n WHERE a.id = :id

-- name: list_approvals
SELECT a.id, a.n, a.redrive, b.id, j.queue, a.state, a.asked_by, a.reason, a.requesters, a.groups, a.bound, a.rule,
  a.asked_at, a.expires_at, a.answered_by, a.answered_at, a.answer
FROM approval AS a LEFT JOIN body AS b ON b.n = a.n LEFT JOIN job AS j ON j.n = a.n
WHERE (:state::text IS NULL OR a.state = :state)
  AND (:queues::text IS NULL OR j.queue = ANY (ARRAY(SELECT jsonb_array_elements_text(:queues::jsonb))))
ORDER BY a.asked_at DESC, a.id LIMIT :limit

-- name: due_approvals
-- What nobody answered in time, and what was approved and its replay did not start.
SELECT a.id, a.n, a.redrive, b.id, j.queue, a.state, a.asked_by, a.reason, a.requesters, a.groups, a.bound, a.rule,
  a.asked_at, a.expires_at, a.answered_by, a.answered_at, a.answer
FROM approval AS a LEFT JOIN body AS b ON b.n = a.n LEFT JOIN job AS j ON j.n = a.n
WHERE a.id IN (SELECT id FROM approval WHERE state = 'pending' AND expires_at <= :now
  UNION ALL SELECT id FROM approval WHERE state = 'approved' AND answered_at <= :before)
LIMIT :limit

-- name: standing_business
SELECT EXISTS (SELECT 1 FROM redrive WHERE state = 'running'), EXISTS (SELECT 1 FROM consent_ask),
  EXISTS (SELECT 1 FROM approval WHERE state = 'pending' AND expires_at <= :now)
  OR EXISTS (SELECT 1 FROM approval WHERE state = 'approved' AND answered_at <= :before),
  coalesce((SELECT min(replay_at) FROM ending WHERE replay_at IS NOT NULL) <= :now, false)
  OR coalesce((SELECT min(refused_under) FROM ending WHERE refused_under IS NOT NULL) <> coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in'), false)
  OR coalesce((SELECT max(refused_under) FROM ending WHERE refused_under IS NOT NULL) <> coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in'), false)

-- name: insert_redrives
INSERT INTO redrive (id, state, wanted, foreseen, snapshot, course, planned_at)
SELECT r->>0, r->>1, r->>2, r->>3, r->>4, r->>5, (r->>6)::double precision FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (id) DO NOTHING

-- name: insert_redriven
INSERT INTO redriven (redrive, place, n, token, generation, fate)
SELECT r->>0, (r->>1)::integer, (r->>2)::bigint, (r->>3)::integer, (r->>4)::integer, r->>5
FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (redrive, place) DO NOTHING

-- name: redrive_by_id
-- Field order is that of RedriveRow, here and wherever one is read.
SELECT id, state, wanted, foreseen, snapshot, course, asked_by, reason, approval, note, episode, planned_at, started_at, ended_at,
  next_at FROM redrive WHERE id = :id

-- name: list_redrives
SELECT id, state, wanted, foreseen, snapshot, course, asked_by, reason, approval, note, episode, planned_at, started_at, ended_at,
  next_at FROM redrive
WHERE state <> 'planned' ORDER BY started_at DESC, id LIMIT :limit

-- name: locked_redrive
SELECT id, state, wanted, foreseen, snapshot, course, asked_by, reason, approval, note, episode, planned_at, started_at, ended_at,
  next_at FROM redrive WHERE id = :id FOR UPDATE

-- name: drifted_letters
SELECT b.id, j.state FROM redriven AS r LEFT JOIN job AS j ON j.n = r.n LEFT JOIN body AS b ON b.n = r.n
WHERE r.redrive = :redrive AND r.state = 'waiting'
  AND (j.n IS NULL OR j.token <> r.token OR b.generation <> r.generation OR j.state NOT IN ('dead', 'held'))
ORDER BY r.place

-- name: start_redrive
UPDATE redrive SET state = :state, course = :course, asked_by = :by, reason = :reason, approval = :approval, started_at = :now
WHERE id = :id

-- name: end_denied
UPDATE redriven SET state = 'ended', outcome = 'denied', at = :now WHERE redrive = :redrive AND fate = 'denied' AND state = 'waiting'

-- name: take_redrive
UPDATE redrive SET driver = :driver, driven_until = :until
WHERE id = (SELECT id FROM redrive WHERE state = 'running' AND id > :after AND (driven_until <= :now OR driver = :driver)
            ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, state, wanted, foreseen, snapshot, course, asked_by, reason, approval, note, episode, planned_at, started_at, ended_at,
  next_at

-- name: released_letters
SELECT r.place, j.state, e.triage::json->>'replay_status'
FROM redriven AS r LEFT JOIN job AS j ON j.n = r.n LEFT JOIN ending AS e ON e.n = r.n
WHERE r.redrive = :redrive AND r.state = 'released' ORDER BY r.place

-- name: mark_redriven
UPDATE redriven SET state = r->>2, outcome = r->>3, episode = coalesce((r->>4)::integer, redriven.episode), at = (r->>5)::double precision
FROM jsonb_array_elements(:rows::jsonb) AS r
WHERE redriven.redrive = r->>0 AND redriven.place = (r->>1)::integer AND redriven.state = r->>6

-- name: redrive_tally
SELECT state, outcome, episode, count(*) FROM redriven WHERE redrive = :redrive GROUP BY state, outcome, episode

-- name: recent_outcomes
SELECT outcome FROM redriven
WHERE redrive = :redrive AND episode = :episode AND state = 'ended' AND outcome IN ('completed', 'failed')
ORDER BY at DESC, place DESC LIMIT :limit

-- name: next_redriven
SELECT place, n, token, generation, fate FROM redriven WHERE redrive = :redrive AND state = 'waiting' ORDER BY place LIMIT :limit

-- name: advance_redrive
UPDATE redrive SET next_at = coalesce(:next_at::double precision, next_at), driven_until = :until
WHERE id = :id AND driver = :driver AND state = 'running'
RETURNING id

-- name: steer_redrive
UPDATE redrive SET state = :target, note = :note::text, episode = episode + :again, ended_at = CASE WHEN :ends::boolean THEN :now ELSE ended_at END
WHERE id = :id AND state = :source AND (:driver::text IS NULL OR driver = :driver)
RETURNING id

-- name: driven_redrives
-- Whoever moves letters of these keeps them running until its commit.
SELECT id, driver FROM redrive WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb))) AND state = 'running'
ORDER BY id FOR UPDATE

-- name: void_plans_approval
UPDATE approval SET state = 'void', answer = :why WHERE id = (SELECT approval FROM redrive WHERE id = :redrive) AND state IN ('pending', 'approved')
RETURNING id

-- name: fail_deleted
-- Letters of redrives that are deleted as they stopped again.
UPDATE redriven SET state = 'ended', outcome = 'failed', at = :now
WHERE redrive IN (SELECT id FROM redrive WHERE state IN ('running', 'paused', 'halted', 'cancelled')) AND state = 'released'
  AND n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: letters_by_number
SELECT * FROM job_row WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: moved_on
SELECT j.n FROM job AS j WHERE j.n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) AND j.thread_gate IS NOT NULL AND (
  EXISTS (SELECT 1 FROM job AS k WHERE k.thread_gate = j.thread_gate AND k.n > j.n AND k.finished_at IS NULL)
  OR EXISTS (SELECT 1 FROM job AS k WHERE k.thread_gate = j.thread_gate AND k.n > j.n AND k.finished_at IS NOT NULL
             AND k.state = 'completed'))

-- name: delete_redriven
DELETE FROM redriven WHERE redrive IN (
  SELECT id FROM redrive WHERE state = 'planned' AND planned_at < :plans_before OR ended_at < :ended_before)

-- name: delete_redrives
DELETE FROM redrive WHERE state = 'planned' AND planned_at < :plans_before OR ended_at < :ended_before

-- name: delete_approvals
-- What was decided stays in the audit.
DELETE FROM approval WHERE state NOT IN ('pending', 'approved') AND coalesce(answered_at, expires_at) < :ended_before

-- name: pause_redrives
UPDATE redrive SET state = 'paused', note = :note WHERE state = 'running'

-- name: fence_jobs
-- Whoever decided about these jobs as they were must decide again.
UPDATE job SET token = token + 1 WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: mark_letter
UPDATE ending SET replay_at = NULL, refused_under = NULL,
  triage = (triage::jsonb || jsonb_build_object('replay_status', :status::text,
  'owner', coalesce(:owner::text, triage::jsonb->>'owner'), 'replay_at', NULL))::text
WHERE n = :n

-- name: amend_body
UPDATE body SET payload = :payload, idempotency_key = :key::text, details = :details, generation = :generation WHERE n = :n

-- name: walk_letters
SELECT n, token, id, queue, handler, fingerprint, failure, finished_at, replays FROM job_row
WHERE state IN ('dead', 'held') AND finished_at IS NOT NULL AND n < :before AND n >= :above
  AND (:queue::text IS NULL OR queue = :queue)
  AND (:reason_code::text IS NULL OR :reason_code IN (failure::json->>'reason_code', failure::json->>'cause'))
  AND (:cause::text IS NULL OR coalesce(failure::json->>'cause', failure::json->>'reason_code') = :cause)
  AND (:failure_class::text IS NULL OR failure::json->>'class' = :failure_class)
  AND (:landed::text IS NULL OR failure::json->>'landed' = :landed)
  AND (:replay_status::text IS NULL OR triage::json->>'replay_status' = :replay_status)
  AND (:fingerprint::text IS NULL OR fingerprint = :fingerprint)
  AND (:finished_before::double precision IS NULL OR finished_at < :finished_before)
ORDER BY n DESC LIMIT :limit

-- name: stamp_fingerprints
UPDATE ending SET fingerprint = r->>2 FROM jsonb_array_elements(:rows::jsonb) AS r
JOIN job ON job.n = (r->>0)::bigint AND job.token = (r->>1)::integer
WHERE ending.n = (r->>0)::bigint AND ending.fingerprint IS NULL

-- name: count_purgeable
-- What is dead, and what was discarded and is not pruned yet; a held letter waits for its answer.
SELECT count(*) FROM job AS j LEFT JOIN ending AS e ON e.n = j.n
WHERE j.state IN ('dead', 'cancelled') AND j.finished_at <= :until
  AND (j.state = 'dead' OR e.triage::json->>'replay_status' = 'discarded') AND j.pending IS NULL
  AND (:queue::text IS NULL OR j.queue = :queue)
  AND (:reason_code::text IS NULL OR :reason_code IN (e.failure::json->>'reason_code', e.failure::json->>'cause'))
  AND (:cause::text IS NULL OR coalesce(e.failure::json->>'cause', e.failure::json->>'reason_code') = :cause)
  AND (:failure_class::text IS NULL OR e.failure::json->>'class' = :failure_class)
  AND (:landed::text IS NULL OR e.failure::json->>'landed' = :landed)
  AND (:replay_status::text IS NULL OR e.triage::json->>'replay_status' = :replay_status)
  AND (:fingerprint::text IS NULL OR e.fingerprint = :fingerprint)
  AND (:finished_before::double precision IS NULL OR j.finished_at < :finished_before)

-- name: purgeable_letters
SELECT j.n, b.id, j.queue FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
WHERE j.state IN ('dead', 'cancelled') AND j.finished_at <= :until
  AND (j.state = 'dead' OR e.triage::json->>'replay_status' = 'discarded') AND j.pending IS NULL
  AND (:queue::text IS NULL OR j.queue = :queue)
  AND (:reason_code::text IS NULL OR :reason_code IN (e.failure::json->>'reason_code', e.failure::json->>'cause'))
  AND (:cause::text IS NULL OR coalesce(e.failure::json->>'cause', e.failure::json->>'reason_code') = :cause)
  AND (:failure_class::text IS NULL OR e.failure::json->>'class' = :failure_class)
  AND (:landed::text IS NULL OR e.failure::json->>'landed' = :landed)
  AND (:replay_status::text IS NULL OR e.triage::json->>'replay_status' = :replay_status)
  AND (:fingerprint::text IS NULL OR e.fingerprint = :fingerprint)
  AND (:finished_before::double precision IS NULL OR j.finished_at < :finished_before)
ORDER BY j.n LIMIT :limit FOR UPDATE OF j

-- name: old_letters
SELECT j.n, b.id, j.queue FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
WHERE j.queue = :queue AND j.state = 'dead' AND j.finished_at < :before AND e.triage::json->>'replay_status' IS DISTINCT FROM 'scheduled'
  AND j.pending IS NULL
ORDER BY j.finished_at LIMIT :limit FOR UPDATE OF j SKIP LOCKED

-- name: surplus_letters
-- All but the newest; each look walks past those that stay. A step is no surplus: it goes with its workflow.
SELECT j.n, b.id, j.queue FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN ending AS e ON e.n = j.n
WHERE j.state = 'dead' AND e.triage::json->>'replay_status' IS DISTINCT FROM 'scheduled' AND j.n IN (
  SELECT n FROM job WHERE queue = :queue AND state = 'dead' AND finished_at IS NOT NULL AND pending IS NULL
  ORDER BY finished_at DESC, n DESC LIMIT :limit OFFSET :keep)
FOR UPDATE OF j SKIP LOCKED

-- name: keep_former_letters
INSERT INTO former_letter (id, at)
SELECT b.id, :now::double precision FROM job AS j JOIN body AS b ON b.n = j.n JOIN ending AS e ON e.n = j.n
WHERE j.n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) AND j.state IN ('completed', 'cancelled') AND (e.replays > 0 OR e.triage IS NOT NULL)
ON CONFLICT (id) DO NOTHING

-- name: former_letters
SELECT id FROM former_letter WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))

-- name: delete_former_letters
DELETE FROM former_letter WHERE id IN (SELECT id FROM former_letter WHERE at < :before LIMIT :limit)

-- name: import_bodies
INSERT INTO body (n, id, payload, idempotency_key, details, created_at, first_seen_at, thread_key, generation, coalesced)
SELECT (r->>0)::bigint, r->>1, r->>2, r->>3, r->>4, (r->>5)::double precision, (r->>6)::double precision, r->>7, (r->>8)::integer, r->>9
FROM jsonb_array_elements(:rows::jsonb) AS r

-- name: import_jobs
INSERT INTO job (n, queue, handler, priority, state, due_at, entered_at, attempts, round_start, token, finished_at, landed, thread_gate)
SELECT (r->>0)::bigint, r->>1, r->>2, (r->>3)::integer, 'dead', (r->>4)::double precision, (r->>4)::double precision, (r->>5)::integer,
  (r->>5)::integer, 1, (r->>6)::double precision, r->>7, r->>8
FROM jsonb_array_elements(:rows::jsonb) AS r

-- name: import_endings
INSERT INTO ending (n, failure, triage, replays, fingerprint)
SELECT (r->>0)::bigint, r->>1, r->>2, (r->>3)::integer, r->>4 FROM jsonb_array_elements(:rows::jsonb) AS r

-- name: import_history
INSERT INTO history (n, line, entry)
SELECT (r->>0)::bigint, (r->>1)::integer, r->>2 FROM jsonb_array_elements(:rows::jsonb) AS r

-- name: policy_row
-- Field order is that of Kept.
SELECT snapshot, source, text, rules, published_by, published_at, problem, problem_at FROM policy

-- name: lock_policy
SELECT snapshot, source, text, rules, published_by, published_at, problem, problem_at FROM policy FOR UPDATE

-- name: policy_mark
SELECT coalesce(snapshot, 'broken: ' || problem) FROM policy

-- name: replay_modes
SELECT queue, name, replay_mode FROM handler

-- name: hold_policy
-- What was decided under it is written before another one comes into force, or not at all.
SELECT coalesce(snapshot, 'broken') FROM policy FOR SHARE

-- name: write_policy
INSERT INTO policy (only_one, snapshot, source, text, rules, published_by, published_at)
VALUES (1, :snapshot, :source, :text, :rules, :by, :now)
ON CONFLICT (only_one) DO UPDATE
SET snapshot = excluded.snapshot, source = excluded.source, text = excluded.text, rules = excluded.rules,
  published_by = excluded.published_by, published_at = excluded.published_at, problem = NULL, problem_at = NULL

-- name: write_policy_problem
INSERT INTO policy (only_one, problem, problem_at) VALUES (1, :problem, :now)
ON CONFLICT (only_one) DO UPDATE SET problem = excluded.problem, problem_at = excluded.problem_at

-- name: due_replays
-- Letters whose time has come, and those that another policy than the one in force refused.
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
-- What is due and is no letter that waits for it any more; what somebody has in hands is left to the next look.
UPDATE ending SET replay_at = NULL, refused_under = NULL WHERE n IN (
  SELECT e.n FROM ending AS e LEFT JOIN job AS j ON j.n = e.n
  WHERE (e.replay_at <= :now AND (j.n IS NULL OR j.state NOT IN ('dead', 'held') OR e.triage::json->>'replay_status' <> 'scheduled'))
    OR (e.refused_under IS NOT NULL AND (e.refused_under < coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in')
  OR e.refused_under > coalesce((SELECT coalesce(snapshot, 'broken') FROM policy), 'built-in'))
    AND (j.n IS NULL OR j.state NOT IN ('dead', 'held') OR e.triage::json->>'replay_status' NOT IN ('denied', 'pending_review')))
  LIMIT :limit FOR UPDATE OF e SKIP LOCKED)

-- name: refuse_replays
-- A refusal is news unless the same was said of the letter before. Only what would be replayed by itself is asked again.
UPDATE ending SET refused_at = :now, replay_at = NULL,
  refused_under = CASE WHEN triage::json->>'action' = 'auto_replay' THEN :snapshot::text END,
  triage = (triage::jsonb || jsonb_build_object('replay_status', :status::text, 'replay_at', NULL))::text
WHERE n = :n
RETURNING refused_at

-- name: last_refusal
SELECT triage::json->>'replay_status', refused_under, refused_at FROM ending WHERE n = :n

-- name: recent_letters
-- How many became letters lately and still are, by queue.
SELECT q.name, (SELECT count(*) FROM (
  SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'dead' AND j.finished_at > :since LIMIT :most) AS dead) + (SELECT count(*) FROM (
  SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'held' AND j.finished_at > :since LIMIT :most) AS held)
FROM queue AS q

-- name: recent_refusals
SELECT queue, count(*) FROM (
  SELECT (SELECT j.queue FROM job AS j WHERE j.n = e.n) AS queue FROM ending AS e
  WHERE e.refused_at > :since ORDER BY e.refused_at DESC LIMIT :most
) AS lately WHERE queue IS NOT NULL GROUP BY queue

-- name: halted_redrives
SELECT id, note FROM redrive WHERE state = 'halted' ORDER BY started_at LIMIT :limit

-- name: called_job
-- A call that was just stored. One that came before may be in somebody else's hands, and is left there.
SELECT j.n, j.state, j.worker, j.token, j.ready_at IS NOT NULL FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = :id FOR UPDATE OF j SKIP LOCKED

-- name: insist_on_job
-- Past the probe of its handler, if that says no: the gate's key is the ticket.
UPDATE job SET due_at = least(due_at, :now), parked_on = NULL, ready_at = :now,
  occupies = (coalesce(job.occupies, '[]')::jsonb || jsonb_build_array(g.key))::text
FROM gate AS g
WHERE job.n = (SELECT n FROM body WHERE id = :id) AND job.state = 'queued' AND g.kind = 'probe'
  AND g.key = 'probe:' || replace(replace(job.queue, '%', '%25'), ':', '%3A') || ':' || job.handler
  AND (job.parked_on IS NULL AND job.ready_at IS NOT NULL OR job.parked_on = g.key) AND coalesce(job.occupies, '') NOT LIKE '%"probe:%'
RETURNING job.n, job.queue

-- name: handlers_named
-- The handlers that a name may mean: a queue's, or one of this name, or one written as queue/handler.
SELECT queue, name FROM handler WHERE queue = :name OR name = :name OR queue || '/' || name = :name ORDER BY queue, name

-- ---------------------------------------------------------------------- tokens

-- name: free_token_name
-- One that has expired gives its name back.
UPDATE token SET revoked_at = expires_at WHERE name = :name AND revoked_at IS NULL AND expires_at <= :now

-- name: create_token
INSERT INTO token (id, name, hash, person, role, groups, queues, created_by, created_at, expires_at, sessions, created_with)
VALUES (:id, :name, :hash, :person, :role, :groups, :queues, :created_by, :now, :expires_at, :sessions, :created_with)
ON CONFLICT DO NOTHING
RETURNING id

-- name: revoke_token
UPDATE token SET revoked_at = :now WHERE name = :name AND revoked_at IS NULL RETURNING id

-- name: token
SELECT id, name, hash, person, role, groups, queues, created_by, created_at, expires_at, revoked_at, sessions, created_with
FROM token WHERE id = :id

-- name: tokens
SELECT id, name, hash, person, role, groups, queues, created_by, created_at, expires_at, revoked_at, sessions, created_with
FROM token WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) ORDER BY created_at DESC, id

-- name: shared_setting
SELECT value FROM shared_setting WHERE name = :name

-- name: write_shared_setting
INSERT INTO shared_setting (name, value, published_by, published_at) VALUES (:name, :value, :by, :now)
ON CONFLICT (name) DO UPDATE
SET value = excluded.value, published_by = excluded.published_by, published_at = excluded.published_at
WHERE shared_setting.value <> excluded.value
RETURNING name

-- name: open_session
INSERT INTO browser_session (hash, token, audience, created_at, ends_at, expires_at)
VALUES (:hash, :token, :audience, :now, :ends_at, :expires_at)

-- name: trim_sessions
-- A token has so many browsers at most: the oldest are signed out.
DELETE FROM browser_session WHERE hash IN (
  SELECT hash FROM browser_session WHERE token = :token ORDER BY created_at DESC, hash LIMIT :limit OFFSET :most FOR UPDATE SKIP LOCKED)

-- name: session
-- The token of a session, in the field order of TokenRow, and when the session ends.
SELECT t.id, t.name, t.hash, t.person, t.role, t.groups, t.queues, t.created_by, t.created_at, t.expires_at, t.revoked_at,
  t.sessions, t.created_with, s.expires_at
FROM browser_session AS s JOIN token AS t ON t.id = s.token WHERE s.hash = :hash AND s.audience = :audience

-- name: renew_session
UPDATE browser_session SET expires_at = LEAST(ends_at, :until) WHERE hash = :hash AND expires_at > :now

-- name: close_session
DELETE FROM browser_session WHERE hash = :hash

-- name: delete_sessions
DELETE FROM browser_session WHERE hash IN (
  SELECT hash FROM browser_session WHERE expires_at <= :now LIMIT :limit FOR UPDATE SKIP LOCKED) RETURNING 1

-- name: schedule_rows
-- Field order is that of Schedule, here and below. Schedules.
SELECT name, queue, spec, timing, added_by, anchor, next_at, next_wall, paused, last_tick, last_job, runs, coalesced, missed, ended_at
FROM schedule ORDER BY name

-- name: schedule_row
SELECT name, queue, spec, timing, added_by, anchor, next_at, next_wall, paused, last_tick, last_job, runs, coalesced, missed, ended_at
FROM schedule WHERE name = :name

-- name: lock_schedule
SELECT name, queue, spec, timing, added_by, anchor, next_at, next_wall, paused, last_tick, last_job, runs, coalesced, missed, ended_at
FROM schedule WHERE name = :name FOR UPDATE

-- name: lock_free_schedules
-- Whoever comes first has it; the others do not wait.
SELECT name, queue, spec, timing, added_by, anchor, next_at, next_wall, paused, last_tick, last_job, runs, coalesced, missed, ended_at
FROM schedule WHERE name = ANY (ARRAY(SELECT jsonb_array_elements_text(:names::jsonb))) ORDER BY name FOR UPDATE SKIP LOCKED

-- name: due_schedules
SELECT name, queue, spec, timing, added_by, anchor, next_at, next_wall, paused, last_tick, last_job, runs, coalesced, missed, ended_at
FROM schedule WHERE next_at <= :now AND next_at IS NOT NULL AND paused = 0
UNION ALL
SELECT name, queue, spec, timing, added_by, anchor, next_at, next_wall, paused, last_tick, last_job, runs, coalesced, missed, ended_at
FROM schedule WHERE next_wall <= :wall AND next_wall IS NOT NULL AND paused = 0
LIMIT :limit

-- name: next_ticks
SELECT (SELECT min(next_at) FROM schedule WHERE next_at IS NOT NULL AND paused = 0),
  (SELECT min(next_wall) FROM schedule WHERE next_wall IS NOT NULL AND paused = 0)

-- name: write_schedule
INSERT INTO schedule (name, queue, spec, timing, added_by, anchor, next_at, next_wall, ended_at)
VALUES (:name, :queue, :spec, :timing, :by, :anchor, :next_at, :next_wall, :ended_at)
ON CONFLICT (name) DO UPDATE
SET queue = excluded.queue, spec = excluded.spec, timing = excluded.timing, added_by = excluded.added_by, anchor = excluded.anchor,
  next_at = excluded.next_at, next_wall = excluded.next_wall, ended_at = excluded.ended_at

-- name: pause_schedule
UPDATE schedule SET paused = :paused, next_at = :next_at, next_wall = :next_wall, ended_at = :ended_at WHERE name = :name

-- name: move_schedule
UPDATE schedule SET next_at = :next_at, next_wall = :next_wall, ended_at = :ended_at, last_tick = coalesce(:last_tick::double precision, last_tick),
  last_job = coalesce(:last_job::text, last_job), runs = runs + :runs, coalesced = coalesced + :coalesced, missed = missed + :missed
WHERE name = :name

-- name: delete_schedule
DELETE FROM schedule WHERE name = :name

-- name: known_ticks
SELECT tick FROM tick WHERE schedule = :name AND tick BETWEEN :first AND :last

-- name: write_ticks
INSERT INTO tick (schedule, tick, at, job)
SELECT r->>0, (r->>1)::double precision, (r->>2)::double precision, r->>3 FROM jsonb_array_elements(:rows::jsonb) AS r

-- name: late_schedules
-- What should have run by now, and what runs into a queue that is paused.
SELECT s.name, s.queue, s.next_at, s.next_wall, coalesce(q.paused, 0) FROM schedule AS s LEFT JOIN queue AS q ON q.name = s.queue
WHERE s.paused = 0 AND (s.next_at < :now OR s.next_wall < :wall OR (q.paused = 1 AND s.ended_at IS NULL))
ORDER BY s.name LIMIT :limit

-- name: delete_ticks
DELETE FROM tick WHERE (schedule, tick) IN (SELECT schedule, tick FROM tick WHERE at < :before ORDER BY at LIMIT :limit)

-- name: delete_ended_schedules
DELETE FROM schedule WHERE ended_at < :before

-- ---------------------------------------------------------------------- inbox

-- name: origins_of
-- For which session jobs are done that somebody else than a worker moved: number, session, handler, whether it was
-- deferred, attempts, replays, failure, whether a run may have done it.
SELECT b.n, b.details::json->>'session', j.handler, coalesce(b.details::json->>'queue_reason', '') = 'deferred_submit', j.attempts,
  coalesce(e.replays, 0), e.failure, coalesce(j.landed, '') = 'maybe'
FROM body AS b JOIN job AS j ON j.n = b.n LEFT JOIN ending AS e ON e.n = b.n
WHERE b.n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) AND b.details::json->>'session' IS NOT NULL

-- name: unheard_job
-- A job whose caller went away: how it stands, what its end left, and whether its session was told of it.
SELECT b.n, j.token, b.id, j.queue, j.handler, j.state, j.attempts, b.details, e.result, e.warning,
  EXISTS (SELECT 1 FROM message AS m WHERE m.session = b.details::json->>'session' AND m.job = b.id)
FROM body AS b JOIN job AS j ON j.n = b.n LEFT JOIN ending AS e ON e.n = b.n WHERE b.id = :id

-- name: set_details
UPDATE body SET details = :details WHERE n = :n

-- name: write_messages
INSERT INTO message (id, session, kind, job, queue, handler, at, body)
SELECT r->>0, r->>1, r->>2, r->>3, r->>4, r->>5, (r->>6)::double precision, r->>7
FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (id) DO NOTHING

-- name: unread_messages
-- Field order is that of Message.
SELECT id, session, kind, job, queue, handler, at, read_at, body FROM message
WHERE session = :session AND read_at IS NULL ORDER BY at DESC, id DESC LIMIT :limit

-- name: all_messages
SELECT id, session, kind, job, queue, handler, at, read_at, body FROM message
WHERE session = :session ORDER BY at DESC, id DESC LIMIT :limit

-- name: read_messages
UPDATE message SET read_at = coalesce(read_at, :now) WHERE id IN (
  SELECT id FROM message WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
    AND (:session::text IS NULL OR session = :session) ORDER BY id FOR UPDATE)
RETURNING id

-- name: delete_messages
DELETE FROM message WHERE id IN (SELECT id FROM message WHERE read_at < :before LIMIT :limit FOR UPDATE SKIP LOCKED)

-- name: delete_surplus_messages
-- What a session has beyond its newest ones, and what nobody came for in all the time.
DELETE FROM message WHERE id IN (
  SELECT m.id FROM (SELECT session FROM message GROUP BY session HAVING count(*) > :most::bigint LIMIT :limit) AS f
  JOIN message AS m ON m.session = f.session
  WHERE m.at < (SELECT k.at FROM message AS k WHERE k.session = f.session ORDER BY k.at DESC LIMIT 1 OFFSET :most::bigint - 1)
  UNION ALL
  SELECT id FROM message WHERE at < :oldest
)

-- Workflows

-- name: insert_workflows
-- One handed in again after an unknown commit is already here: its id says so.
INSERT INTO workflow (id, name, state, first_n, last_n, total, unfinished, queues, created_at)
SELECT r->>0, r->>1, r->>2, (r->>3)::bigint, (r->>4)::bigint, (r->>5)::integer, (r->>6)::integer, r->>7, (r->>8)::double precision
FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (id) DO NOTHING

-- name: insert_step_bodies
INSERT INTO body (n, id, payload, details, created_at, workflow, step, parents, children)
SELECT (r->>0)::bigint, r->>1, r->>2, r->>3, (r->>4)::double precision, r->>5, r->>6, r->>7, r->>8 FROM jsonb_array_elements(:rows::jsonb) AS r

-- name: insert_step_jobs
INSERT INTO job (n, queue, handler, priority, state, due_at, ready_at, entered_at, budget, asked_lease, asked_expiry, expires_at,
  pending)
SELECT (r->>0)::bigint, r->>1, r->>2, (r->>3)::integer, r->>4, (r->>5)::double precision, (r->>6)::double precision,
  (r->>7)::double precision, (r->>8)::integer, (r->>9)::double precision, (r->>10)::double precision, (r->>11)::double precision,
  (r->>12)::integer
FROM jsonb_array_elements(:rows::jsonb) AS r

-- name: count_parents_down
-- So many of the steps before each of these completed. With the last one it enters its queue, and its age counts from then.
-- A step that was cancelled meanwhile stays where it is.
-- Their rows are locked: of two transactions that complete the last two, the second one sees what the first has counted.
UPDATE job SET pending = pending - :completed,
  state = CASE WHEN pending = :completed AND state = 'waiting' THEN 'queued' ELSE state END,
  due_at = CASE WHEN pending = :completed AND state = 'waiting' THEN greatest(due_at, :now) ELSE due_at END,
  ready_at = CASE WHEN pending = :completed AND state = 'waiting' AND due_at <= :now THEN :now ELSE ready_at END,
  entered_at = CASE WHEN pending = :completed THEN :now ELSE entered_at END,
  expires_at = CASE WHEN pending = :completed
    THEN least(asked_expiry, :now + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue)) ELSE expires_at END
WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))
RETURNING n, pending, state, token, queue, due_at, CASE WHEN pending = 0 THEN (SELECT id FROM body WHERE body.n = job.n) END

-- name: waiting_behind
-- The steps that wait for any of these, directly or for one that does.
WITH RECURSIVE behind (n) AS (
  SELECT j.n FROM body AS b CROSS JOIN LATERAL jsonb_array_elements_text(b.children::jsonb) AS c
    JOIN job AS j ON j.n = c::bigint AND j.state = 'waiting'
  WHERE b.n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))
  UNION
  SELECT j.n FROM behind JOIN body AS b ON b.n = behind.n CROSS JOIN LATERAL jsonb_array_elements_text(b.children::jsonb) AS c
    JOIN job AS j ON j.n = c::bigint AND j.state = 'waiting'
)
SELECT j.n, j.token, b.id, j.queue FROM behind JOIN job AS j ON j.n = behind.n JOIN body AS b ON b.n = j.n ORDER BY j.n

-- name: tally_workflows
-- Locked in the order of their ids, after every job.
WITH locked AS MATERIALIZED (
  SELECT id FROM workflow WHERE id = ANY (ARRAY(SELECT e->>0 FROM jsonb_array_elements(:tallies::jsonb) AS e)) ORDER BY id FOR UPDATE
)
UPDATE workflow SET unfinished = unfinished + (e->>1)::integer, stopped = stopped + (e->>2)::integer, dropped = dropped + (e->>3)::integer
FROM jsonb_array_elements(:tallies::jsonb) AS e JOIN locked ON locked.id = e->>0 WHERE workflow.id = e->>0
RETURNING workflow.id, state, unfinished, stopped, dropped

-- name: set_progress
UPDATE workflow SET state = :state WHERE id = :id

-- name: end_workflow
-- Its steps are kept as long as the queue of theirs that keeps what ended longest; for good if one of them does.
UPDATE workflow SET state = :state, finished_at = :now, kept_until = :now + (
  SELECT CASE WHEN count(*) = count(keep) THEN max(keep) END FROM (
    SELECT CASE WHEN q.rules IS NULL THEN :keep_completed ELSE (q.rules::json->>'keep_completed')::double precision END AS keep
    FROM jsonb_array_elements_text(workflow.queues::jsonb) AS e LEFT JOIN queue AS q ON q.name = e) AS kept)
WHERE id = :id

-- name: release_workflow_key
UPDATE idempotency SET until = :now::double precision + :keep_keys::double precision WHERE until IS NULL AND id = :id

-- name: parents_of
-- The steps before claimed ones, each once, with whom it comes before, and its result as far as so many bytes go in all.
SELECT p.n, p.step, p.whose, p.size, CASE WHEN p.sum <= :most THEN (SELECT result FROM ending WHERE ending.n = p.n) END FROM (
  SELECT q.n, b.step, q.whose, octet_length(g.result) AS size, sum(coalesce(octet_length(g.result), 0)) OVER (ORDER BY q.n) AS sum FROM (
    SELECT a::bigint AS n, json_agg(b.n)::text AS whose
    FROM body AS b CROSS JOIN LATERAL jsonb_array_elements_text(b.parents::jsonb) AS a
    WHERE b.n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint)) GROUP BY a::bigint
  ) AS q JOIN body AS b ON b.n = q.n LEFT JOIN ending AS g ON g.n = q.n
) AS p ORDER BY p.n

-- name: result_of_step
SELECT result FROM ending WHERE n = :n

-- name: waits_for
-- What waiting steps wait for in the end: the steps before them that are neither final nor waiting themselves.
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
-- Field order is that of WorkflowRow, here and wherever one is read.
SELECT id, name, state, first_n, last_n, total, unfinished, stopped, dropped, created_at, finished_at FROM workflow WHERE id = :id

-- name: list_workflows
SELECT id, name, state, first_n, last_n, total, unfinished, stopped, dropped, created_at, finished_at FROM workflow
WHERE id < :before AND (:state::text IS NULL OR state = :state) ORDER BY id DESC LIMIT :limit

-- name: stuck_workflows
SELECT id, name, stopped, unfinished FROM workflow WHERE finished_at IS NULL AND state = 'stuck' ORDER BY id LIMIT :limit

-- name: steps_of_workflow
-- Field order is that of StepRow. A result beyond so many bytes is not read.
SELECT j.n, b.id, b.step, j.queue, j.handler, j.state, j.attempts, j.due_at, j.parked_on, j.pending, b.parents,
  octet_length(g.result), CASE WHEN octet_length(g.result) <= :most THEN g.result END, g.failure, g.warning, j.finished_at
FROM body AS b JOIN job AS j ON j.n = b.n LEFT JOIN ending AS g ON g.n = b.n
WHERE b.n > :after AND b.n <= :last AND b.workflow = :id ORDER BY b.n LIMIT :limit

-- name: unfinished_steps
SELECT j.n, j.token, b.id, j.queue, j.state, j.attempts FROM body AS b JOIN job AS j ON j.n = b.n
WHERE b.n >= :first AND b.n <= :last AND b.workflow = :id AND j.state NOT IN ('completed', 'cancelled') ORDER BY b.n FOR UPDATE OF j

-- name: ask_all_to_stop
UPDATE job SET cancelling = 1 WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: recount_workflows
-- After something moved their steps by another way than one by one.
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
SELECT coalesce(json_agg(n), '[]')::text FROM body WHERE n >= :first AND n <= :last AND workflow = :id

-- name: delete_workflows
DELETE FROM workflow WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))

-- ---------------------------------------------------------------------- consent

-- name: lock_consents
-- Field order is that of Grant, here and wherever one is read. Whoever spends one keeps them until its commit.
SELECT id, session, queue, handler, mode, given_by, reason, granted_at, expires_at, uses, used, revoked_at
FROM consent WHERE session = :session AND expires_at > :now AND revoked_at IS NULL ORDER BY id FOR UPDATE

-- name: consents_of
SELECT id, session, queue, handler, mode, given_by, reason, granted_at, expires_at, uses, used, revoked_at
FROM consent WHERE session = :session AND expires_at > :now AND revoked_at IS NULL ORDER BY id

-- name: consents_used
SELECT u.consent FROM jsonb_array_elements_text(:ids::jsonb) AS e JOIN consent_use AS u ON u.consent = e AND u.job = :job

-- name: spend_consent
INSERT INTO consent_use (consent, job, at) VALUES (:id, :job, :now) ON CONFLICT DO NOTHING

-- name: count_consent
UPDATE consent SET used = used + 1 WHERE id = :id AND used < uses RETURNING id

-- name: give_consents
INSERT INTO consent (id, session, queue, handler, mode, given_by, reason, granted_at, expires_at, uses, used, revoked_at)
SELECT r->>0, r->>1, r->>2, r->>3, r->>4, r->>5, r->>6, (r->>7)::double precision, (r->>8)::double precision, (r->>9)::integer,
  (r->>10)::integer, (r->>11)::double precision
FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (id) DO NOTHING

-- name: revoke_consents
UPDATE consent SET revoked_at = :now WHERE id IN (
  SELECT id FROM consent WHERE session = :session AND revoked_at IS NULL AND expires_at > :now
    AND (:handler::text IS NULL OR (queue = :queue::text AND handler = :handler)) ORDER BY id FOR UPDATE)
RETURNING id

-- name: list_consents
SELECT id, session, queue, handler, mode, given_by, reason, granted_at, expires_at, uses, used, revoked_at
FROM consent WHERE (:session::text IS NULL OR session = :session) AND expires_at > :now AND revoked_at IS NULL
ORDER BY granted_at DESC, id LIMIT :limit

-- name: file_asks
-- What names the work is the job's id, and with an amended payload its generation; `first` is Claim.first_hand.
INSERT INTO consent_ask (n, job, session, queue, handler, first, asked_at)
SELECT b.n, CASE WHEN b.generation > 0 THEN b.id || '~g' || b.generation ELSE b.id END, coalesce(b.details::json->>'session', ''),
  j.queue, j.handler, (j.attempts = 0 AND j.landed IS DISTINCT FROM 'maybe' AND coalesce(e.replays, 0) = 0)::integer, :now
FROM body AS b JOIN job AS j ON j.n = b.n LEFT JOIN ending AS e ON e.n = b.n
WHERE b.n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))
ON CONFLICT (n) DO NOTHING

-- name: drop_asks
DELETE FROM consent_ask WHERE n = ANY (ARRAY(SELECT jsonb_array_elements_text(:numbers::jsonb)::bigint))

-- name: list_asks
-- Field order is that of Ask, as in the next one.
SELECT a.n, a.job, a.session, a.queue, a.handler, a.first, a.asked_at, b.id, j.token, j.state, j.thread_gate
FROM consent_ask AS a JOIN body AS b ON b.n = a.n JOIN job AS j ON j.n = a.n
WHERE (:session::text IS NULL OR a.session = :session) ORDER BY a.asked_at, a.n LIMIT :limit

-- name: answered_asks
SELECT a.n, a.job, a.session, a.queue, a.handler, a.first, a.asked_at, b.id, j.token, j.state, j.thread_gate
FROM consent_ask AS a JOIN body AS b ON b.n = a.n JOIN job AS j ON j.n = a.n
WHERE EXISTS (SELECT 1 FROM consent AS c WHERE c.session = a.session AND c.expires_at > :now AND c.revoked_at IS NULL
  AND (c.handler = '*' OR (c.queue = a.queue AND c.handler = a.handler)) AND (c.uses IS NULL OR c.used < c.uses
    OR EXISTS (SELECT 1 FROM consent_use AS u WHERE u.consent = c.id AND u.job = a.job)))
ORDER BY a.asked_at, a.n LIMIT :limit

-- name: uses_left
SELECT uses - used FROM consent WHERE id = :id

-- name: delete_consent_uses
DELETE FROM consent_use WHERE consent IN (SELECT id FROM consent WHERE expires_at < :before LIMIT :limit)

-- name: delete_consents
DELETE FROM consent WHERE id IN (SELECT id FROM consent WHERE expires_at < :before LIMIT :limit)
  AND NOT EXISTS (SELECT 1 FROM consent_use AS u WHERE u.consent = consent.id)

-- ---------------------------------------------------------------------- alerts

-- name: begin_following
INSERT INTO follower (name, seq) VALUES (:name, :seq) ON CONFLICT (name) DO NOTHING

-- name: begin_at_end
INSERT INTO follower (name, seq)
SELECT name, (SELECT coalesce(max(seq), 0) FROM journal) FROM jsonb_array_elements_text(:names::jsonb) AS name
ON CONFLICT (name) DO NOTHING

-- name: lock_follower
SELECT seq FROM follower WHERE name = :name FOR UPDATE

-- name: move_follower
UPDATE follower SET seq = greatest(seq, :seq) WHERE name = :name

-- name: follower
SELECT seq FROM follower WHERE name = :name

-- name: raise_alert
INSERT INTO alert (fingerprint, surfaces, sample, opened_at, tell_at, number)
VALUES (:fingerprint, :surfaces, :sample, :now, :tell_at, :number::integer)
ON CONFLICT (fingerprint) DO UPDATE SET number = alert.number + excluded.number, surfaces = excluded.surfaces, sample = excluded.sample

-- name: due_alerts
-- Field order is that of Alert.
SELECT fingerprint, surfaces, sample, opened_at, number, told FROM alert WHERE tell_at <= :now ORDER BY tell_at LIMIT :limit

-- name: alert_told
UPDATE alert SET told = :number, tell_at = :tell_at
WHERE fingerprint = :fingerprint AND told = :told AND tell_at <= :now
RETURNING fingerprint

-- name: close_alert
DELETE FROM alert WHERE fingerprint = :fingerprint AND told = :told AND number = :told AND tell_at <= :now
RETURNING fingerprint

-- name: jobs_by_ids
SELECT * FROM job_row WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))

-- ---------------------------------------------------------------------- alerts as conditions

-- name: begin_condition
INSERT INTO condition (id, kind, queue, subject, message, value, threshold, started_at)
VALUES (:id, :kind, :queue, :subject, :message, :value, :threshold, :now)
ON CONFLICT DO NOTHING
RETURNING id

-- name: renew_condition
UPDATE condition SET message = :message, value = :value, threshold = :threshold, clear_since = NULL
WHERE id = :id AND ended_at IS NULL

-- name: clear_condition
UPDATE condition SET clear_since = :now WHERE id = :id AND ended_at IS NULL AND clear_since IS NULL

-- name: end_condition
UPDATE condition SET ended_at = :now WHERE id = :id AND ended_at IS NULL AND clear_since IS NOT NULL
RETURNING id

-- name: condition_told
UPDATE condition SET told = :told WHERE id = :id AND told = :before
RETURNING id

-- name: note_pain
-- Due, unless it hurt lately, or what tells of that is still on its way, or came there lately.
INSERT INTO pain (kind, queue, subject, at, job) VALUES (:kind, :queue, :subject, :now, :job)
ON CONFLICT (kind, queue, subject) DO UPDATE SET at = excluded.at, job = excluded.job
WHERE pain.at <= :before AND NOT EXISTS (
  SELECT 1 FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = pain.job AND (j.state IN ('queued', 'running') OR j.finished_at > :before))
RETURNING kind

-- name: note_sink
INSERT INTO sink (name, failing_since, failed_at, why) VALUES (:name, :now, :now, :why)
ON CONFLICT (name) DO UPDATE SET failed_at = excluded.failed_at, why = excluded.why

-- name: forget_sink
DELETE FROM sink WHERE name = :name

-- name: open_conditions
-- Field order is that of Open, here and below.
SELECT id, kind, queue, subject, message, value, threshold, started_at, clear_since, ended_at, told
FROM condition WHERE ended_at IS NULL AND kind = ANY (ARRAY(SELECT jsonb_array_elements_text(:kinds::jsonb))) ORDER BY started_at, id LIMIT :limit

-- name: untold_conditions
SELECT id, kind, queue, subject, message, value, threshold, started_at, clear_since, ended_at, told
FROM condition WHERE told < 2 AND (told = 0 AND coalesce(ended_at, :now::double precision) > :since OR told = 1 AND ended_at IS NOT NULL)
  AND kind = ANY (ARRAY(SELECT jsonb_array_elements_text(:kinds::jsonb)))
ORDER BY started_at, id LIMIT :limit

-- name: hurting_conditions
SELECT c.id, c.kind, c.queue, c.subject, c.message, c.value, c.threshold, c.started_at, c.clear_since, c.ended_at, c.told
FROM condition AS c LEFT JOIN pain AS p ON p.kind = c.kind AND p.queue = c.queue AND p.subject = c.subject
WHERE c.ended_at IS NULL AND c.clear_since IS NULL AND c.kind = ANY (ARRAY(SELECT jsonb_array_elements_text(:kinds::jsonb)))
  AND (p.at IS NULL OR p.at <= :before AND NOT EXISTS (
    SELECT 1 FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = p.job AND (j.state IN ('queued', 'running') OR j.finished_at > :before)))
ORDER BY c.started_at, c.id LIMIT :limit

-- name: failing_sinks
SELECT name, failing_since, why FROM sink ORDER BY name

-- name: delete_conditions
DELETE FROM condition WHERE id IN (SELECT id FROM condition WHERE ended_at < :before LIMIT :limit)

-- name: delete_pains
DELETE FROM pain WHERE (kind, queue, subject) IN (SELECT kind, queue, subject FROM pain WHERE at < :before LIMIT :limit)

-- name: delete_sinks
DELETE FROM sink WHERE failed_at < :before

-- name: held_counts
-- How many of the letters of each queue wait for an answer; counting stops at the bound.
SELECT q.name, (SELECT count(*) FROM (SELECT 1 FROM job AS j WHERE j.queue = q.name AND j.state = 'held' AND j.finished_at IS NOT NULL LIMIT :most) AS held) FROM queue AS q

-- ---------------------------------------------------------------------- how long attempts wait and take

-- name: write_timings
INSERT INTO timing (owner, part, queue, counts)
SELECT r->>0, (r->>1)::integer, r->>2, r->>3 FROM jsonb_array_elements(:rows::jsonb) AS r
ON CONFLICT (owner, part, queue) DO UPDATE SET counts = excluded.counts

-- name: timings
SELECT queue, counts FROM timing

-- name: timings_of_the_gone
-- What workers counted that are gone, and what was added up of others before.
SELECT t.owner, t.part, t.queue, t.counts FROM timing AS t
WHERE t.owner = '' OR NOT EXISTS (SELECT 1 FROM worker AS w WHERE w.id = t.owner)

-- name: delete_timings
DELETE FROM timing WHERE owner = ANY (ARRAY(SELECT jsonb_array_elements_text(:owners::jsonb)))
