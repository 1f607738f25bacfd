-- The spine's statements. store/statements.py explains how they are written.

-- columns: standfast.job.Claim
from j: n, token, queue, handler, worker, attempts, max_attempts, round_start, lease, timeout, replay_mode, claimed_at, entered_at,
  expires_at, landed, pending, due_at, progress_start, failed_looks, suspect
from b: id, payload, idempotency_key
gate: j.thread_gate
details: json(b.details)
coalesced: json(b.coalesced)
occupies: json(j.occupies)
ledger: json(CASE WHEN j.token > :since THEN (
    SELECT nullif(json_group_array(json_array(:columns(ClaimedEntry))), '[]') FROM effect AS f WHERE f.n = j.n) END)
first_seen_at: coalesce(b.first_seen_at, b.created_at)
replays: CASE WHEN j.token > :since THEN coalesce((SELECT g.replays FROM ending AS g WHERE g.n = j.n), 0) ELSE 0 END
refusals: CASE WHEN j.token > :since AND j.deferrals > 0 THEN (SELECT count(*) FROM (
    SELECT h.entry->>'refused' AS refused, count(*) FILTER (WHERE h.entry->>'refused' IS NULL
      AND (h.entry->>'class' IS NOT NULL OR h.entry->>'reason_code' = 'replayed')) OVER (ORDER BY h.line DESC) AS ends
    FROM history AS h WHERE h.n = j.n AND h.line > (SELECT max(o.line) - 100 FROM history AS o WHERE o.n = j.n)) WHERE refused AND ends = 0) ELSE 0 END
progressed: CASE WHEN j.token > :since AND EXISTS (SELECT 1 FROM effect AS f WHERE f.n = j.n AND f.done_in = j.token) THEN 1 ELSE 0 END
later: handler_risk, parents, plain

-- columns: standfast.job.Claim (postgres)
details: b.details::json
coalesced: b.coalesced::json
occupies: j.occupies::json
ledger: CASE WHEN j.token > :since THEN (SELECT json_agg(json_build_array(:columns(ClaimedEntry))) FROM effect AS f WHERE f.n = j.n) END
refusals: CASE WHEN j.token > :since AND j.deferrals > 0 THEN (SELECT count(*) FROM (
    SELECT h.entry::json->>'refused' AS refused, count(*) FILTER (WHERE h.entry::json->>'refused' IS NULL
      AND (h.entry::json->>'class' IS NOT NULL OR h.entry::json->>'reason_code' = 'replayed')) OVER (ORDER BY h.line DESC) AS ends
    FROM history AS h WHERE h.n = j.n AND h.line > (SELECT max(o.line) - 100 FROM history AS o WHERE o.n = j.n)) AS newest
  WHERE refused = 'true' AND ends = 0) ELSE 0 END

-- columns: standfast.job.LedgerEntry as ClaimedEntry
from f: name, state, verdict, late
receipt: CASE WHEN f.state = 'done' AND octet_length(f.receipt) > :most THEN NULL ELSE f.receipt END
left_out: CASE WHEN f.state = 'done' AND octet_length(f.receipt) > :most THEN octet_length(f.receipt) ELSE 0 END
later: at, attempt

-- columns: standfast.wings.records.reads.JobRow
from job_row: n, id, queue, handler, state, priority, payload, details, attempts, round_start, budget, max_attempts, rules, deferrals,
  token, generation, created_at, first_seen_at, entered_at, due_at, ready_at, claimed_at, finished_at, worker, idempotency_key,
  thread_key, thread_gate, coalesced, parked_on, workflow, expires_at, result, warning, failure, triage, fingerprint, superseded_by,
  policy_snapshot, replays, handler_risk

-- columns: standfast.worker.upkeep.HeldJob
from j: n, token, queue, cancelling
id: b.id
gate: j.thread_gate

-- columns: standfast.worker.upkeep.Expired
from j: n, token, queue, entered_at, expires_at, handler, attempts
from b: id, payload, details
gate: j.thread_gate
max_age: q.max_age
first_seen_at: coalesce(b.first_seen_at, b.created_at)
replays: coalesce((SELECT e.replays FROM ending AS e WHERE e.n = j.n), 0)
handler_risk: (SELECT h.risk FROM handler AS h WHERE h.queue = j.queue AND h.name = j.handler)
replay_mode: (SELECT h.replay_mode FROM handler AS h WHERE h.queue = j.queue AND h.name = j.handler)

-- columns: standfast.worker.lost_workers.LostWorker
from worker: held, company
worker: worker.id
certain: worker.died_at IS NOT NULL

-- part: lane
-- For each handler, the priorities that have claimable jobs, the highest first.
lane (handler, priority) AS (
  SELECT value, (SELECT max(priority) FROM job
                 WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue AND handler = value)
  FROM json_each(:handlers)
  UNION ALL
  SELECT handler, (SELECT max(priority) FROM job
                   WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue
                     AND handler = lane.handler AND priority < lane.priority)
  FROM lane WHERE priority IS NOT NULL
)

-- part: lane (postgres)
lane (handler, priority) AS (
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

-- name: lock_jobs (postgres only)
-- locks: jobs
-- answers: none
-- Not needed on SQLite, which has one writer at a time.
SELECT count(*) FROM (
  SELECT n FROM job WHERE n IN :integers(numbers) ORDER BY n FOR UPDATE
) AS locked

-- name: next_numbers
-- remembered: yes
WITH RECURSIVE fresh (n) AS (
  SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'body'), 0) + 1 UNION ALL SELECT n + 1 FROM fresh LIMIT :count
)
SELECT n FROM fresh

-- name: next_numbers (postgres)
SELECT nextval('job_number') FROM generate_series(1, :count::integer)

-- name: insert_bodies
-- locks: jobs
-- assumes: all
-- A job that is sent again after a commit with unknown outcome is already here; its id shows that.
INSERT INTO body (n, id, payload, idempotency_key, details, created_at) :rows(bigint, text, text, text, text, double precision)
ON CONFLICT (id) DO NOTHING

-- name: insert_bodies_at_once (postgres only)
-- locks: jobs
-- insert_bodies, sent on the assumption that all bodies are new. One that is not fails the round, so the server need not handle a conflict.
INSERT INTO body (n, id, payload, idempotency_key, details, created_at) :rows(bigint, text, text, text, text, double precision)

-- name: date_bodies
-- locks: jobs
WITH fresh (n, at) AS (:rows(bigint, double precision))
UPDATE body SET first_seen_at = fresh.at FROM fresh WHERE body.n = fresh.n

-- name: bodies_of
SELECT n, id FROM body WHERE n IN :integers(numbers)

-- name: insert_jobs
-- locks: jobs
-- answers: none
-- One hot row for each of these bodies, all with the same values.
INSERT INTO job (n, queue, handler, priority, state, due_at, ready_at, entered_at, budget, asked_lease, asked_expiry, expires_at)
SELECT n, :queue, :handler, :priority, 'queued', :due_at, :ready_at, :now, :budget, :asked_lease, :asked_expiry, :expires_at
FROM body WHERE n IN :integers(numbers)

-- name: insert_jobs (postgres)
INSERT INTO job (n, queue, handler, priority, state, due_at, ready_at, entered_at, budget, asked_lease, asked_expiry, expires_at)
SELECT n::bigint, :queue, :handler, :priority, 'queued', :due_at, :ready_at::double precision, :now, :budget::integer,
  :asked_lease::double precision, :asked_expiry::double precision, :expires_at::double precision
FROM jsonb_array_elements_text(:numbers::jsonb) AS e(n)

-- name: promote_due
-- locks: jobs
-- waits: no
UPDATE job SET ready_at = due_at
WHERE n IN (SELECT n FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now
              AND thread_gate IS NULL
            ORDER BY due_at LIMIT :limit)

-- name: promote_due (postgres)
WITH due AS MATERIALIZED (
  SELECT n FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL AND due_at <= :now AND thread_gate IS NULL
  ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
)
UPDATE job SET ready_at = due_at FROM due WHERE job.n = due.n

-- name: next_due
-- assumes: same
-- When the next job is due, when the one after it is, when the next gate opens, and whether a waiting job, or that next one, must run alone.
SELECT min(due_at), (SELECT due_at FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL ORDER BY due_at LIMIT 1 OFFSET 1),
  (SELECT min(opens_at) FROM gate WHERE opens_at IS NOT NULL),
  EXISTS (SELECT 1 FROM job INDEXED BY job_suspect WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL)
    OR (SELECT suspect FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL ORDER BY due_at LIMIT 1) IS NOT NULL
FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL

-- name: next_due (postgres)
SELECT min(due_at), (SELECT due_at FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL ORDER BY due_at LIMIT 1 OFFSET 1),
  (SELECT min(opens_at) FROM gate WHERE opens_at IS NOT NULL),
  EXISTS (SELECT 1 FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL)
    OR (SELECT suspect FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL ORDER BY due_at LIMIT 1) IS NOT NULL
FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL

-- name: queue_rules
-- remembered: yes
-- assumes: same
SELECT name, rules, paused, (SELECT coalesce(snapshot, 'broken: ' || problem) FROM policy)
FROM queue WHERE name IN :texts(queues)

-- name: claims_so_far
SELECT coalesce(sum(value), 0) FROM counter WHERE queue = :queue AND name = 'claimed'

-- name: claims_so_far (postgres)
SELECT coalesce(sum(claims), 0)::bigint FROM tally WHERE queue = :queue

-- name: lanes
-- The distinct handlers and priorities that have claimable jobs, found by a loose scan of the index.
WITH RECURSIVE :part(lane)
SELECT handler, priority FROM lane WHERE priority IS NOT NULL

-- name: lane_heads
-- The same. If there is only one lane, also the numbers of the first jobs in it.
WITH RECURSIVE :part(lane), lanes (handler, priority) AS MATERIALIZED (SELECT handler, priority FROM lane WHERE priority IS NOT NULL)
SELECT handler, priority, CASE WHEN (SELECT count(*) FROM lanes) = 1 THEN (
  SELECT json_group_array(n) FROM (
    SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue
                        AND handler = lanes.handler AND priority = lanes.priority
    ORDER BY ready_at, n LIMIT :wanted)) END
FROM lanes

-- name: lane_heads (postgres)
-- Chosen jobs must be locked at once; take_lane does both.
WITH RECURSIVE :part(lane)
SELECT handler, priority, NULL::text FROM lane WHERE priority IS NOT NULL

-- name: claim_lane
-- locks: jobs
-- waits: no
-- Within one lane, ordering by boosted priority is the same as ordering by waiting time.
SELECT json_group_array(n) FROM (
  SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue
                      AND handler = :handler AND priority = :priority
  ORDER BY ready_at, n LIMIT :wanted
)

-- name: claim_lane (postgres)
WITH chosen AS MATERIALIZED (
  SELECT n, ready_at FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue
                      AND handler = :handler AND priority = :priority
  ORDER BY ready_at, n LIMIT :wanted FOR UPDATE SKIP LOCKED
)
SELECT coalesce(json_agg(n ORDER BY ready_at, n), '[]')::text FROM chosen

-- name: claim_lanes
-- locks: jobs
-- waits: no
-- Within one priority the oldest job has the largest boost, so a claim needs to look only at the head of each lane.
-- The order is that of tests/claim_order.py; with `oldest` it is by waiting time alone.
SELECT json_group_array(n), 0 FROM (
  SELECT j.n FROM json_each(:lanes) AS lane JOIN job AS j ON j.n IN (
    SELECT n FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue
                        AND handler = lane.value->>0 AND priority = lane.value->>1
                        AND n NOT IN (SELECT value FROM json_each(:but))
    ORDER BY ready_at, n LIMIT :wanted + :beyond)
  ORDER BY iif(:oldest, 0, j.priority + min(:boost_cap, :boost * (:now - j.ready_at) / 3600.0)) DESC, j.ready_at, j.n
  LIMIT :wanted
)

-- name: claim_lanes (postgres)
-- Only jobs that are taken are locked. Jobs that other transactions have locked are skipped and counted.
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
  SELECT taken.n, best.place FROM (SELECT n, place FROM ranked ORDER BY place) AS best CROSS JOIN LATERAL (
    SELECT n FROM job WHERE job.n = best.n AND state = 'queued' AND ready_at IS NOT NULL FOR UPDATE SKIP LOCKED) AS taken
  LIMIT :wanted::integer
)
SELECT (SELECT coalesce(json_agg(n ORDER BY place), '[]')::text FROM chosen),
  (SELECT count(*) FROM ranked) - (SELECT count(*) FROM chosen)

-- name: take_lane (postgres only)
-- locks: jobs
-- waits: no
-- lanes, claim_lane, take_jobs and held_claims in one statement, for jobs that wait in a single lane whose handler is not `but`, which may be
-- held back. If there are several lanes it takes nothing and lists them. Each row says whether its job is plain; held_claims must read the others.
-- The statement is planned once, perhaps while the store is empty, so no join may depend on estimated row counts: LIMIT 1000 keeps the generic
-- plan as cheap as one for a known number, rows are found by ctid, and a FULL JOIN is never a nested loop. A row that another transaction has
-- just changed is locked but not taken, because its ctid is no longer the one that was read. The next claim takes it.
WITH RECURSIVE stamp (handler, replay_mode, timeout) AS MATERIALIZED (
  SELECT r->>0, r->>1, (r->>2)::double precision FROM jsonb_array_elements(:stamps::jsonb) AS r
), lane (handler, priority) AS (
  SELECT s.handler, (SELECT priority FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue
                       AND handler = s.handler ORDER BY priority DESC LIMIT 1)
  FROM stamp AS s
  UNION ALL
  SELECT handler, (SELECT j.priority FROM job AS j
                   WHERE j.state = 'queued' AND j.ready_at IS NOT NULL AND j.suspect IS NULL AND j.queue = :queue
                     AND j.handler = lane.handler AND j.priority < lane.priority
                   ORDER BY j.priority DESC LIMIT 1)
  FROM lane WHERE priority IS NOT NULL
), lanes AS MATERIALIZED (
  SELECT handler, priority FROM lane WHERE priority IS NOT NULL
), only_lane AS MATERIALIZED (
  SELECT min(handler) AS handler, min(priority) AS priority FROM lanes HAVING count(*) = 1 AND min(handler) <> :but
), chosen AS MATERIALIZED (
  SELECT * FROM (
    SELECT ctid AS place, n, ready_at FROM job WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NULL AND queue = :queue
      AND handler = (SELECT handler FROM only_lane) AND priority = (SELECT priority FROM only_lane)
    ORDER BY ready_at, n LIMIT 1000 FOR UPDATE SKIP LOCKED) AS head
  LIMIT :wanted
), taken AS (
  UPDATE job SET state = 'running', ready_at = NULL, attempts = attempts + 1, token = token + 1, worker = :worker,
    claimed_at = :now, lease = coalesce(asked_lease, :lease), replay_mode = (SELECT replay_mode FROM stamp JOIN only_lane USING (handler)),
    timeout = coalesce((SELECT timeout FROM stamp JOIN only_lane USING (handler)), :timeout::double precision),
    max_attempts = greatest(round_start, progress_start) + coalesce(budget, :attempts)
  FROM chosen WHERE job.ctid = chosen.place
  RETURNING handler, priority, job.n, token, attempts, max_attempts, round_start, lease, timeout, replay_mode, entered_at, expires_at,
    due_at, token = 1 AND coalesce(thread_gate, landed, occupies) IS NULL AND pending IS NULL AND progress_start IS NULL AS plain,
    chosen.ready_at AS since
), bodies AS MATERIALIZED (
  SELECT n, id, payload, details, coalesce(first_seen_at, created_at) AS first_seen_at, idempotency_key IS NULL AND coalesced IS NULL AS plain
  FROM body WHERE n = ANY (ARRAY(SELECT n FROM chosen))
)
SELECT j.handler, j.priority, j.n, j.token, b.id, b.payload, j.attempts, j.max_attempts, j.round_start, j.lease, j.timeout, j.replay_mode,
  j.entered_at, j.expires_at, b.details, b.first_seen_at, j.due_at, j.plain AND b.plain, j.since
FROM taken AS j FULL JOIN bodies AS b ON b.n = j.n
WHERE coalesce(j.n, 0) > 0 AND coalesce(b.n, 0) > 0
UNION ALL
SELECT handler, priority, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM lanes
WHERE NOT EXISTS (SELECT 1 FROM only_lane)
ORDER BY since, n

-- name: suspect_lanes
-- The handlers and priorities of suspects: like `lanes`, but for few jobs.
SELECT DISTINCT handler, priority FROM job INDEXED BY job_suspect
WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL AND queue = :queue
  AND handler IN :texts(handlers)

-- name: suspect_lanes (postgres)
SELECT DISTINCT handler, priority FROM job
WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL AND queue = :queue
  AND handler IN :texts(handlers)

-- name: startable_suspects
-- How many suspects may start now. While one waits at its queue's limit or rate, the others can only wait behind it; it may
-- start once it has a ticket.
SELECT count(*) FROM job INDEXED BY job_suspect
WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL AND queue = :queue
  AND handler IN :texts(handlers)
  AND (occupies IS NOT NULL OR NOT EXISTS (
    SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.parked_on IN (
      'limit:' || replace(replace(:queue, '%', '%25'), ':', '%3A'), 'rate:' || replace(replace(:queue, '%', '%25'), ':', '%3A'))))

-- name: startable_suspects (postgres)
SELECT count(*) FROM job
WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL AND queue = :queue
  AND handler IN :texts(handlers)
  AND (occupies IS NOT NULL OR NOT EXISTS (
    SELECT 1 FROM job AS j WHERE j.state = 'queued' AND j.parked_on IN (
      'limit:' || replace(replace(:queue, '%', '%25'), ':', '%3A'), 'rate:' || replace(replace(:queue, '%', '%25'), ':', '%3A'))))

-- name: claim_suspects
-- locks: jobs
-- waits: no
-- First those that were let through, then the longest-waiting: suspects kept their place in the line.
SELECT json_group_array(n) FROM (
  SELECT n FROM job INDEXED BY job_suspect
  WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL AND queue = :queue
    AND handler IN :texts(handlers)
  ORDER BY occupies IS NULL, ready_at, n LIMIT :wanted
)

-- name: claim_suspects (postgres)
WITH chosen AS MATERIALIZED (
  SELECT n, ready_at FROM job
  WHERE state = 'queued' AND ready_at IS NOT NULL AND suspect IS NOT NULL AND queue = :queue
    AND handler IN :texts(handlers)
  ORDER BY occupies IS NULL, ready_at, n LIMIT :wanted FOR UPDATE SKIP LOCKED
)
SELECT coalesce(json_agg(n ORDER BY ready_at, n), '[]')::text FROM chosen

-- name: handler_stamps
-- remembered: yes
-- assumes: same
SELECT name, replay_mode, timeout, risk FROM handler WHERE queue = :queue

-- name: take_jobs
-- locks: jobs
-- answers: none
-- Attempt and token are raised before the handler runs, so that an attempt whose payload kills its worker is counted.
UPDATE job SET state = 'running', ready_at = NULL, attempts = attempts + 1, token = token + 1, worker = :worker,
  claimed_at = :now, lease = coalesce(asked_lease, :lease),
  replay_mode = :replay_mode, timeout = :timeout,
  max_attempts = max(round_start, coalesce(progress_start, 0)) + coalesce(budget, :attempts)
WHERE n IN :integers(numbers) AND handler = :handler

-- name: take_jobs (postgres)
UPDATE job SET state = 'running', ready_at = NULL, attempts = attempts + 1, token = token + 1, worker = :worker,
  claimed_at = :now, lease = coalesce(asked_lease, :lease),
  replay_mode = :replay_mode, timeout = :timeout::double precision,
  max_attempts = greatest(round_start, progress_start) + coalesce(budget, :attempts)
WHERE n IN :integers(numbers) AND handler = :handler

-- name: plain_claims
-- What a claim of a plain job needs, and whether the job is plain; held_claims must read the others. The columns are those of take_lane.
-- SQLite's rows come in the order of the numbers.
SELECT j.handler, j.priority, j.n, j.token, b.id, b.payload, j.attempts, j.max_attempts, j.round_start, j.lease, j.timeout, j.replay_mode,
  j.entered_at, j.expires_at, b.details, coalesce(b.first_seen_at, b.created_at), j.due_at,
  j.token = 1 AND coalesce(j.thread_gate, j.landed, j.occupies, j.pending, j.progress_start, b.idempotency_key, b.coalesced) IS NULL, 0
FROM job AS j CROSS JOIN body AS b ON b.n = j.n WHERE j.n IN :integers(numbers)

-- name: plain_claims (postgres)
SELECT j.handler, j.priority, j.n, j.token, b.id, b.payload, j.attempts, j.max_attempts, j.round_start, j.lease, j.timeout, j.replay_mode,
  j.entered_at, j.expires_at, b.details, coalesce(b.first_seen_at, b.created_at), j.due_at,
  j.token = 1 AND coalesce(j.thread_gate, j.landed, j.occupies, b.idempotency_key, b.coalesced) IS NULL
    AND coalesce(j.pending, j.progress_start) IS NULL, 0
FROM jsonb_array_elements_text(:numbers::jsonb) WITH ORDINALITY AS e(n, place)
JOIN job AS j ON j.n = e.n::bigint JOIN body AS b ON b.n = j.n ORDER BY e.place

-- name: held_claims
-- CROSS JOIN keeps the order of the numbers. Effects are read only for tokens above `since`: a first attempt has none yet. A receipt of
-- more than `most` bytes is left out until a handler asks for it. Refusals in a row are counted among the last 100 lines of the history,
-- because a handler that snoozes adds lines without end. That is enough for the 50 that are allowed and as many lines between them.
SELECT json_group_array(json_array(:columns(Claim)))
FROM json_each(:numbers) AS e CROSS JOIN job AS j ON j.n = e.value CROSS JOIN body AS b ON b.n = e.value

-- name: held_claims (postgres)
SELECT coalesce(json_agg(json_build_array(:columns(Claim)) ORDER BY e.place), '[]')::text
FROM jsonb_array_elements_text(:numbers::jsonb) WITH ORDINALITY AS e(n, place)
JOIN job AS j ON j.n = e.n::bigint JOIN body AS b ON b.n = j.n

-- name: count_claims (postgres only)
-- locks: none
-- answers: none
-- Each worker has its own row. On SQLite the counter of claimed notices is enough.
INSERT INTO tally (queue, worker, claims, claimed_at) VALUES (:queue, :worker, :claims, :now)
ON CONFLICT (queue, worker) DO UPDATE SET claims = tally.claims + excluded.claims, claimed_at = excluded.claimed_at

-- name: standing_states
-- The state of each job that still has its move's token, in the order of the moves; null if the token has changed.
-- Also, which of these jobs hold places of gates, or are steps of a workflow.
SELECT json_group_array(j.state), json_group_array(json_array(j.n, json(j.occupies), json(CASE WHEN j.pending IS NOT NULL THEN (
  SELECT json_array(b.workflow, b.step, b.children) FROM body AS b WHERE b.n = j.n) END))) FILTER (WHERE j.occupies IS NOT NULL OR j.pending IS NOT NULL)
FROM json_each(:held) AS e LEFT JOIN job AS j ON j.n = e.value->>0 AND j.token = e.value->>1

-- name: standing_states (postgres)
SELECT coalesce(json_agg(j.state ORDER BY e.place), '[]')::text,
  coalesce(json_agg(json_build_array(j.n, j.occupies::json, CASE WHEN j.pending IS NOT NULL THEN (
    SELECT json_build_array(b.workflow, b.step, b.children) FROM body AS b WHERE b.n = j.n) END))
    FILTER (WHERE j.occupies IS NOT NULL OR j.pending IS NOT NULL), '[]')::text
FROM jsonb_array_elements(:held::jsonb) WITH ORDINALITY AS e(r, place)
LEFT JOIN job AS j ON j.n = (e.r->>0)::bigint AND j.token = (e.r->>1)::integer

-- name: move_jobs
-- locks: jobs
-- answers: none
-- The general statement that moves jobs, all in the same way. standing_states has checked their tokens in this transaction.
-- If an attempt may have had its effect, that stays recorded, however later attempts end.
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
WHERE n IN :integers(numbers)

-- name: complete_jobs
-- locks: jobs
-- assumes: all
-- Complete the first attempts of these plain jobs: all of them, or none. The token fences, and whatever makes a job more than plain (a
-- place of a gate, a thread, a workflow) is recorded in its row. RETURNING the moved numbers would cost more than the move itself.
UPDATE job SET state = 'completed', ready_at = NULL, finished_at = :now, worker = NULL
WHERE n IN :integers(numbers) AND :count = (SELECT count(*) FROM job WHERE n IN :integers(numbers)
  AND token = 1 AND state = 'running' AND occupies IS NULL AND thread_gate IS NULL AND pending IS NULL AND suspect IS NULL)

-- name: complete_jobs (postgres)
WITH held AS MATERIALIZED (
  SELECT n, token = 1 AND state = 'running' AND occupies IS NULL AND thread_gate IS NULL AND pending IS NULL AND suspect IS NULL AS plain
  FROM job WHERE n IN :integers(numbers) ORDER BY n FOR NO KEY UPDATE)
UPDATE job SET state = 'completed', ready_at = NULL, finished_at = :now, worker = NULL
FROM held WHERE job.n = held.n AND :count::bigint = (SELECT count(*) FROM held WHERE plain)

-- name: complete_jobs_at_once (postgres only)
-- locks: jobs
-- complete_jobs, sent on the assumption that all jobs are plain. One that is not fails the round, so none must be read and locked beforehand.
-- The index yields the numbers in order, which is the order of locks. `|| ''` keeps the planner from using job_running instead, which looks
-- empty while most jobs wait.
UPDATE job SET state = 'completed', ready_at = NULL, finished_at = :now, worker = NULL
WHERE n = ANY (translate(:numbers, '[]', '{}')::bigint[])
  AND token = 1 AND state || '' = 'running' AND occupies IS NULL AND thread_gate IS NULL AND pending IS NULL AND suspect IS NULL

-- name: complete_some
-- locks: jobs
-- The same for those jobs that are still plain; it returns those that it moved. The others are left to move_jobs.
UPDATE job SET state = 'completed', ready_at = NULL, finished_at = :now, worker = NULL
WHERE n IN :integers(numbers)
  AND token = 1 AND state = 'running' AND occupies IS NULL AND thread_gate IS NULL AND pending IS NULL AND suspect IS NULL
RETURNING n

-- name: complete_some (postgres)
WITH held AS MATERIALIZED (
  SELECT n FROM job WHERE n IN :integers(numbers) ORDER BY n FOR NO KEY UPDATE)
UPDATE job SET state = 'completed', ready_at = NULL, finished_at = :now, worker = NULL
FROM held WHERE job.n = held.n
  AND token = 1 AND state = 'running' AND occupies IS NULL AND thread_gate IS NULL AND pending IS NULL AND suspect IS NULL
RETURNING job.n

-- name: open_round
-- locks: jobs
-- A replay starts anew: attempts and age count from here, and the holder of the old token is fenced. An expiry in the past
-- no longer counts, because the replay was requested nevertheless.
UPDATE job SET round_start = attempts, max_attempts = NULL, entered_at = :now, token = token + 1, cancelling = 0, failed_looks = 0,
  asked_expiry = iif(asked_expiry > :now, asked_expiry, NULL),
  expires_at = nullif(min(iif(asked_expiry > :now, asked_expiry, 9e99),
    coalesce(:now + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue), 9e99)), 9e99)
WHERE n IN :integers(numbers)

-- name: open_round (postgres)
UPDATE job SET round_start = attempts, max_attempts = NULL, entered_at = :now, token = token + 1, cancelling = 0, failed_looks = 0,
  asked_expiry = CASE WHEN asked_expiry > :now THEN asked_expiry END,
  expires_at = least(CASE WHEN asked_expiry > :now THEN asked_expiry END,
    :now + (SELECT q.max_age FROM queue AS q WHERE q.name = job.queue))
WHERE n IN :integers(numbers)

-- name: keep_progress
-- locks: jobs
-- An attempt that made progress opens a round: it may be followed by as many attempts without progress as a round has.
UPDATE job SET max_attempts = attempts + max_attempts - max(round_start, coalesce(progress_start, 0)), progress_start = attempts
WHERE n IN :integers(numbers)

-- name: keep_progress (postgres)
UPDATE job SET max_attempts = attempts + max_attempts - greatest(round_start, progress_start), progress_start = attempts
WHERE n IN :integers(numbers)

-- name: write_endings
-- locks: jobs
-- answers: none
INSERT INTO ending (n, result, warning, failure, triage, superseded_by, fingerprint, policy_snapshot, replay_at) :rows(bigint, text, text, text, text, text, text, text, double precision)
ON CONFLICT (n) DO UPDATE
SET result = excluded.result, warning = excluded.warning, failure = excluded.failure,
  triage = coalesce(excluded.triage, ending.triage), superseded_by = excluded.superseded_by,
  fingerprint = coalesce(excluded.fingerprint, ending.fingerprint),
  policy_snapshot = coalesce(excluded.policy_snapshot, ending.policy_snapshot), replay_at = excluded.replay_at, refused_under = NULL

-- name: write_history
-- locks: jobs
-- answers: none
WITH fresh (n, entry) AS (:rows(bigint, text))
INSERT INTO history (n, line, entry)
SELECT n, 1 + coalesce((SELECT max(line) FROM history AS h WHERE h.n = fresh.n), 0), entry FROM fresh

-- name: newest_lines
SELECT h.n, h.line, h.entry FROM json_each(:numbers) AS e CROSS JOIN history AS h ON h.n = e.value
  AND h.line IN (SELECT line FROM history WHERE n = e.value ORDER BY line DESC LIMIT :most)
ORDER BY h.n, h.line DESC

-- name: newest_lines (postgres)
SELECT h.n, h.line, h.entry FROM jsonb_array_elements_text(:numbers::jsonb) AS e(n) CROSS JOIN LATERAL (
  SELECT n, line, entry FROM history WHERE n = e.n::bigint ORDER BY line DESC LIMIT :most) AS h
ORDER BY h.n, h.line DESC

-- name: mark_lines
-- locks: jobs
-- answers: none
WITH fresh (n, line, entry) AS (:rows(bigint, integer, text))
UPDATE history SET entry = fresh.entry FROM fresh WHERE history.n = fresh.n AND history.line = fresh.line

-- name: delete_lines
-- locks: jobs
-- answers: none
WITH gone (n, line) AS (:rows(bigint, integer))
DELETE FROM history WHERE (n, line) IN (SELECT n, line FROM gone)

-- name: history_of
SELECT n, entry FROM history WHERE n IN :integers(numbers) ORDER BY n, line

-- name: write_journal
-- locks: none
-- answers: none
-- The row is new: no other transaction waits for it.
INSERT INTO journal (at, entries) VALUES (:now, :entries)

-- name: write_journal (postgres)
INSERT INTO told (at, entries) VALUES (:now, :entries)

-- name: add_counters
-- locks: none
-- answers: none
-- PostgreSQL appends rows and sums them up later: all transactions would wait for a counter's single row.
INSERT INTO counter (queue, name, value, at) VALUES :rows
ON CONFLICT (queue, name) DO UPDATE SET value = value + excluded.value, at = excluded.at

-- name: add_counters (postgres)
WITH fresh (queue, name, value, at) AS (:rows(text, text, bigint, double precision))
INSERT INTO counted (queue, name, value) SELECT queue, name, value FROM fresh

-- name: try_journal (postgres only)
-- locks: journal
-- waits: no
-- Not needed on SQLite, which has one writer at a time.
SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' journal', 57))

-- name: lock_journal (postgres only)
-- locks: journal
-- Not needed on SQLite, which has one writer at a time.
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' journal', 57))

-- name: number_journal (postgres only)
-- locks: journal
-- Number the oldest rows that are visible, up to so many rows and bytes, and return whether more are left. Only one transaction at a time
-- does this, so each new number is the highest so far. If one transaction saw what another had committed, its row has the higher id, and
-- whoever sees its row sees both: so numbers rise in commit order, one bite after the other.
-- SQLite numbers rows when it writes them: with one writer, that is the commit order.
WITH oldest AS MATERIALIZED (
  SELECT place, sum(size) OVER (ORDER BY id) - size AS before
  FROM (SELECT ctid AS place, id, octet_length(entries) AS size FROM told ORDER BY id LIMIT :most) AS head
), moved AS (
  DELETE FROM told WHERE ctid = ANY (ARRAY(SELECT place FROM oldest WHERE before < :bytes)) RETURNING id, at, entries
), numbered AS (
  INSERT INTO journal (seq, at, entries)
  SELECT (SELECT coalesce(max(seq), 0) FROM journal) + row_number() OVER (ORDER BY id), at, entries FROM moved
)
SELECT count(*) >= :most OR coalesce(max(before), 0) >= :bytes FROM oldest

-- name: sum_counters (postgres only)
-- locks: journal
-- Add up so many rows at most, and return whether more may be left; readers add those up themselves. SQLite sums up as it writes.
WITH moved AS (
  DELETE FROM counted WHERE ctid = ANY (ARRAY(SELECT ctid FROM counted LIMIT :most)) RETURNING queue, name, value
), summed AS (
  INSERT INTO counter AS c (queue, name, value)
  SELECT queue, name, sum(value) FROM moved GROUP BY queue, name ORDER BY queue, name
  ON CONFLICT (queue, name) DO UPDATE SET value = c.value + excluded.value
)
SELECT count(*) >= :most FROM moved

-- name: sum_job_counts (postgres only)
-- locks: journal
-- The same for these.
WITH moved AS (
  DELETE FROM job_counted WHERE ctid = ANY (ARRAY(SELECT ctid FROM job_counted LIMIT :most)) RETURNING what, slot, queue, number
), summed AS (
  INSERT INTO job_count AS c (what, slot, queue, number)
  SELECT what, slot, queue, sum(number) FROM moved GROUP BY what, slot, queue ORDER BY what, slot, queue
  ON CONFLICT (what, slot, queue) DO UPDATE SET number = c.number + excluded.number
)
SELECT count(*) >= :most FROM moved

-- name: forget_slots
-- locks: journal
-- Past slots are no longer counted, and most of the jobs that were due in them have gone.
DELETE FROM job_count WHERE what = 'slot' AND slot < :slot OR what = 'hour' AND slot < :hour

-- name: beat
-- locks: workers
INSERT INTO worker (id, host, pid, boot, queues, declares, started_at, beat_at, process)
VALUES (:id, :host, :pid, :boot, :queues, :declares, :now, :now, :process)
ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at, queues = excluded.queues, declares = excluded.declares,
  process = excluded.process, died_at = NULL, ran = NULL, held = NULL, company = NULL

-- name: held_by_worker
SELECT :columns(HeldJob) FROM job AS j JOIN body AS b ON b.n = j.n
WHERE j.worker = :id AND j.state = 'running'

-- name: retire_workers
-- locks: workers
DELETE FROM worker WHERE id IN :texts(workers) AND NOT EXISTS (SELECT 1 FROM job WHERE job.worker = worker.id AND job.state = 'running')

-- name: retire_workers (postgres)
-- Their claims still count: their tallies are added to those of the queues, as in delete_workers.
WITH gone AS (
  DELETE FROM worker WHERE id IN :texts(workers)
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.worker = worker.id AND job.state = 'running') RETURNING id
), freed AS (
  DELETE FROM tally USING gone WHERE tally.worker = gone.id RETURNING tally.queue, tally.claims, tally.claimed_at
)
INSERT INTO tally (queue, worker, claims, claimed_at)
SELECT queue, '', sum(claims), max(claimed_at) FROM freed GROUP BY queue ORDER BY queue
ON CONFLICT (queue, worker) DO UPDATE
SET claims = tally.claims + excluded.claims, claimed_at = greatest(tally.claimed_at, excluded.claimed_at)

-- name: upkeep_times
SELECT name, at FROM upkeep

-- name: mark_upkeep
-- locks: upkeep
INSERT INTO upkeep (name, at) VALUES (:name, :now) ON CONFLICT (name) DO UPDATE SET at = excluded.at

-- name: forget_marks
-- locks: upkeep
-- waits: no
-- answers: none
DELETE FROM upkeep WHERE name IN (
  SELECT name FROM upkeep WHERE substr(name, 1, length(:mark::text)) = :mark AND at < :before FOR UPDATE SKIP LOCKED)

-- name: take_upkeep
-- locks: upkeep
-- A turn that one worker has until `until`, unless it gives it up or takes it again; `held` is the end of the turn that it has now.
INSERT INTO upkeep (name, at) VALUES (:name, :until) ON CONFLICT (name) DO UPDATE SET at = excluded.at
WHERE upkeep.at <= :now OR upkeep.at = :held::double precision
RETURNING at

-- name: forget_upkeep
-- locks: upkeep
DELETE FROM upkeep WHERE name = :name

-- name: lapsed_numbers
-- A worker of an earlier boot, or one whose process released its lock, is certainly gone; any other may only be late.
-- Claiming a job counts as a heartbeat for it. :reclaim is false just after a gap in sweeping, so that live workers can beat first.
SELECT json_group_array(n) FROM (
  SELECT j.n FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
  WHERE j.state = 'running' AND (w.boot <> :boot OR w.process IN :texts(dead) OR (:reclaim AND (w.id IS NULL OR max(w.beat_at, j.claimed_at) + j.lease < :now)))
  LIMIT :limit
)

-- name: lapsed_numbers (postgres)
SELECT coalesce(json_agg(n), '[]')::text FROM (
  SELECT j.n FROM job AS j LEFT JOIN worker AS w ON w.id = j.worker
  WHERE j.state = 'running'
    AND (w.boot <> :boot OR w.process IN :texts(dead)
      OR (:reclaim AND (w.id IS NULL OR greatest(w.beat_at, j.claimed_at) + j.lease < :now)))
  LIMIT :limit
) AS lapsed

-- name: note_lost
-- locks: workers
-- waits: no
-- What a worker held is counted when it is first found dead or late, before anything is taken from it: later there is less to count.
UPDATE worker SET
  died_at = iif(process IN :texts(dead), :now, NULL),
  held = (SELECT count(*) FROM job AS j WHERE j.state = 'running' AND j.worker = worker.id),
  company = (SELECT count(*) FROM worker AS o CROSS JOIN job AS j ON j.state = 'running' AND j.worker = o.id
             WHERE o.id = worker.id OR o.process = worker.process),
  ran = (SELECT json_group_object(what, number) FROM (
    SELECT j.queue || '/' || j.handler AS what, count(*) AS number FROM job AS j
    WHERE j.state = 'running' AND j.worker = worker.id GROUP BY j.queue, j.handler))
WHERE company IS NULL AND (id IN :texts(workers) OR process IN :texts(dead))

-- name: note_lost (postgres)
-- A worker whose row is locked, because it is just beating, is skipped.
WITH lost AS MATERIALIZED (
  SELECT id FROM worker
  WHERE company IS NULL AND (id IN :texts(workers)
    OR process IN :texts(dead))
  ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE worker SET
  died_at = CASE WHEN process IN :texts(dead) THEN :now::double precision END,
  held = (SELECT count(*) FROM job AS j WHERE j.state = 'running' AND j.worker = worker.id),
  company = (SELECT count(*) FROM worker AS o JOIN job AS j ON j.state = 'running' AND j.worker = o.id
             WHERE o.id = worker.id OR o.process = worker.process),
  ran = (SELECT coalesce(json_object_agg(what, number), '{}')::text FROM (
    SELECT j.queue || '/' || j.handler AS what, count(*) AS number FROM job AS j
    WHERE j.state = 'running' AND j.worker = worker.id GROUP BY j.queue, j.handler) AS held)
FROM lost WHERE worker.id = lost.id

-- name: lost_workers
SELECT :columns(LostWorker) FROM worker WHERE id IN :texts(workers)

-- name: stand_apart
-- locks: workers
-- One worker at a time runs the suspects of a queue, and holds nothing else meanwhile; the other workers go on.
UPDATE worker SET apart = :queue
WHERE id = :id AND NOT EXISTS (
  SELECT 1 FROM worker AS o WHERE o.apart = :queue AND o.id <> :id AND o.died_at IS NULL AND o.boot = :boot AND o.beat_at > :since)
RETURNING id

-- name: stand_back
-- locks: workers
UPDATE worker SET apart = NULL WHERE id = :id

-- name: expired_jobs
SELECT :columns(Expired)
FROM job AS j JOIN body AS b ON b.n = j.n JOIN queue AS q ON q.name = j.queue
WHERE j.state = 'queued' AND j.expires_at <= :now ORDER BY j.expires_at LIMIT :limit

-- name: prunable_numbers
-- CROSS JOIN looks only at the old end of each queue's ended jobs, never at all of them. A step is pruned with its workflow.
SELECT json_group_array(n) FROM (
  SELECT j.n FROM queue AS q CROSS JOIN job AS j
    ON j.queue = q.name AND j.state IN ('completed', 'cancelled')
   AND j.finished_at < :now - iif(q.rules IS NULL, :keep_completed, q.rules->>'keep_completed')
  WHERE j.pending IS NULL LIMIT :limit
)

-- name: prunable_numbers (postgres)
-- A step is pruned with its workflow.
SELECT coalesce(json_agg(n), '[]')::text FROM (
  SELECT j.n FROM queue AS q CROSS JOIN LATERAL (
    SELECT n FROM job WHERE job.queue = q.name AND job.state IN ('completed', 'cancelled') AND job.pending IS NULL
      AND job.finished_at < :now - CASE WHEN q.rules IS NULL THEN :keep_completed ELSE (q.rules::json->>'keep_completed')::double precision END
    LIMIT :limit) AS j
  LIMIT :limit
) AS old

-- name: delete_jobs
-- locks: jobs
DELETE FROM job WHERE n IN :integers(numbers)

-- name: delete_bodies
-- locks: jobs
DELETE FROM body WHERE n IN :integers(numbers)

-- name: delete_endings
-- locks: jobs
DELETE FROM ending WHERE n IN :integers(numbers)

-- name: delete_history
-- locks: jobs
DELETE FROM history WHERE n IN :integers(numbers)

-- name: delete_journal
-- locks: journal
-- Times rise with the numbers, so only the oldest rows are looked at. The newest row stays: numbering continues from it.
DELETE FROM journal WHERE seq IN (
  SELECT seq FROM (SELECT seq, at FROM journal ORDER BY seq LIMIT :limit) AS old WHERE at < :before
) AND seq < (SELECT max(seq) FROM journal)

-- name: delete_workers
-- locks: workers
DELETE FROM worker WHERE beat_at < :before AND NOT EXISTS (SELECT 1 FROM job WHERE job.worker = worker.id AND job.state = 'running')

-- name: delete_workers (postgres)
-- The claims of workers that are in no list still count: so many of their tallies are added to those of the queues, and the answer is how many
-- that were. A tally that a claim is just writing is skipped.
WITH gone AS (
  DELETE FROM worker WHERE beat_at < :before
    AND NOT EXISTS (SELECT 1 FROM job WHERE job.worker = worker.id AND job.state = 'running') RETURNING id
), unlisted AS MATERIALIZED (
  SELECT queue, worker FROM tally
  WHERE worker <> '' AND worker NOT IN (SELECT id FROM worker WHERE id NOT IN (SELECT id FROM gone)) LIMIT :limit FOR UPDATE SKIP LOCKED
), freed AS (
  DELETE FROM tally USING unlisted AS u WHERE tally.queue = u.queue AND tally.worker = u.worker RETURNING tally.queue, tally.claims, tally.claimed_at
), kept AS (
  INSERT INTO tally (queue, worker, claims, claimed_at)
  SELECT queue, '', sum(claims), max(claimed_at) FROM freed GROUP BY queue ORDER BY queue
  ON CONFLICT (queue, worker) DO UPDATE
  SET claims = tally.claims + excluded.claims, claimed_at = greatest(tally.claimed_at, excluded.claimed_at)
)
SELECT count(*) FROM freed

-- name: job_by_id
SELECT :columns(JobRow) FROM job_row WHERE id = :id

-- name: job_by_id (postgres)
-- If another job answers for this id, that job is returned.
SELECT :columns(JobRow) FROM job_row WHERE id = coalesce((SELECT owner FROM alias WHERE alias.id = :id), :id)

-- name: list_jobs
SELECT :columns(JobRow) FROM job_row WHERE n IN :integers(numbers) ORDER BY n DESC

-- name: state_of
SELECT b.id, j.state FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = :id

-- name: state_of (postgres)
-- The job itself, or the job that answers for its id, which may be gone by now.
SELECT a.owner, j.state FROM alias AS a LEFT JOIN body AS b ON b.id = a.owner LEFT JOIN job AS j ON j.n = b.n WHERE a.id = :id
UNION ALL
SELECT b.id, j.state FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.id = :id

-- name: known_ids
SELECT id FROM body WHERE id IN :texts(ids)

-- name: begin_batch
SAVEPOINT batch

-- name: undo_batch
-- changes: rules
ROLLBACK TO batch

-- name: end_batch
RELEASE batch

-- name: letters_by_number
SELECT :columns(JobRow) FROM job_row WHERE n IN :integers(numbers)

-- name: fence_jobs
-- locks: jobs
-- Decisions that were based on the present state of these jobs must be made again.
UPDATE job SET token = token + 1 WHERE n IN :integers(numbers)

-- name: jobs_by_ids
SELECT :columns(JobRow) FROM job_row WHERE id IN :texts(ids)
