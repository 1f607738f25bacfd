-- Statements of effects. How they are written: store/statements.py.

-- columns: standfast.job.LedgerEntry
from effect: name, state, verdict, late, at, attempt
receipt: CASE WHEN octet_length(effect.receipt) > :most THEN NULL ELSE effect.receipt END
left_out: CASE WHEN octet_length(effect.receipt) > :most THEN octet_length(effect.receipt) ELSE 0 END

-- columns: standfast.wings.effects.scripts.LedgerRow
from f: state, receipt, verdict, late, token
id: b.id
running_under: CASE WHEN j.state = 'running' THEN j.token END

-- name: count_looks
-- locks: jobs
UPDATE job SET failed_looks = CASE WHEN :failed THEN failed_looks + 1 ELSE 0 END
WHERE n IN :integers(numbers)

-- name: standing_effects
-- For each effect: its job, the token under which that runs (null if it does not run), and the ledger's row.
SELECT :columns(LedgerRow)
FROM json_each(:effects) AS e LEFT JOIN job AS j ON j.n = e.value->>0 LEFT JOIN body AS b ON b.n = j.n
LEFT JOIN effect AS f ON f.n = e.value->>0 AND f.name = e.value->>1
ORDER BY e.key

-- name: standing_effects (postgres)
SELECT :columns(LedgerRow)
FROM jsonb_array_elements(:effects::jsonb) WITH ORDINALITY AS e(r, place)
LEFT JOIN job AS j ON j.n = (e.r->>0)::bigint LEFT JOIN body AS b ON b.n = j.n
LEFT JOIN effect AS f ON f.n = (e.r->>0)::bigint AND f.name = e.r->>1
ORDER BY e.place

-- name: write_effects
-- locks: jobs
INSERT INTO effect (n, name, state, receipt, verdict, token, at, late, attempt, done_in) :rows(bigint, text, text, text, text, integer, double precision, integer, integer, integer)
ON CONFLICT (n, name) DO UPDATE
SET state = excluded.state, receipt = excluded.receipt, verdict = excluded.verdict, token = excluded.token,
  at = excluded.at, late = excluded.late, attempt = excluded.attempt, done_in = coalesce(effect.done_in, excluded.done_in)

-- name: drop_effects
-- locks: jobs
DELETE FROM effect WHERE (n, name) IN (SELECT e.value->>0, e.value->>1 FROM json_each(:effects) AS e)

-- name: drop_effects (postgres)
DELETE FROM effect WHERE (n, name) IN (SELECT (r->>0)::bigint, r->>1 FROM jsonb_array_elements(:effects::jsonb) AS r)

-- name: write_verdicts
-- locks: jobs
-- What a look found; an intent that is found done is closed. A person's consent to repeat the effect stays until then.
INSERT INTO effect (n, name, state, receipt, verdict, token, at, attempt) :rows(bigint, text, text, text, text, integer, double precision, integer)
ON CONFLICT (n, name) DO UPDATE
SET verdict = CASE WHEN effect.verdict = 'asked' AND excluded.verdict <> 'verified' THEN effect.verdict ELSE excluded.verdict END,
  receipt = CASE effect.state WHEN 'seen' THEN excluded.receipt WHEN 'done' THEN coalesce(effect.receipt, excluded.receipt)
    ELSE coalesce(excluded.receipt, effect.receipt) END,
  state = CASE WHEN effect.state = 'begun' AND excluded.verdict = 'verified' THEN 'done' ELSE effect.state END,
  done_in = coalesce(effect.done_in, CASE WHEN effect.state = 'begun' AND excluded.verdict = 'verified' THEN excluded.token END),
  at = excluded.at, attempt = excluded.attempt

-- name: write_looks
-- locks: jobs
-- answers: none
-- Every look is kept, in the order of the looks.
WITH fresh (n, place, name, verdict, receipt, at, attempt) AS (:rows(bigint, integer, text, text, text, double precision, integer))
INSERT INTO look (n, line, name, verdict, receipt, at, attempt)
SELECT n, place + coalesce((SELECT max(line) FROM look AS l WHERE l.n = fresh.n), 0), name, verdict, receipt, at, attempt FROM fresh

-- name: looks_of
SELECT n, name, verdict, CASE WHEN octet_length(receipt) > :most THEN NULL ELSE receipt END, at, attempt,
  CASE WHEN octet_length(receipt) > :most THEN octet_length(receipt) ELSE 0 END
FROM look WHERE n IN :integers(numbers) ORDER BY n, line

-- name: delete_looks
-- locks: jobs
DELETE FROM look WHERE n IN :integers(numbers)

-- name: reopen_effects
-- locks: jobs
-- The handler could not find an effect that counts as done. The receipt stays: if a look finds the effect, it counts again.
UPDATE effect SET state = 'begun', verdict = :doubted
WHERE state = 'done' AND (n, name) IN (SELECT e.value->>0, e.value->>1 FROM json_each(:effects) AS e)

-- name: reopen_effects (postgres)
UPDATE effect SET state = 'begun', verdict = :doubted
WHERE state = 'done' AND (n, name) IN (SELECT (r->>0)::bigint, r->>1 FROM jsonb_array_elements(:effects::jsonb) AS r)

-- name: release_intents
-- locks: jobs
-- A person who replays a job accepts that effects which were begun may be done again.
UPDATE effect SET verdict = :asked
WHERE n IN :integers(numbers) AND state = 'begun'

-- name: delete_effects
-- locks: jobs
DELETE FROM effect WHERE n IN :integers(numbers)

-- name: effects_of
SELECT n, :columns(LedgerEntry) FROM effect WHERE n IN :integers(numbers) ORDER BY n, name

-- name: receipt_of
SELECT receipt FROM effect WHERE n = :n AND name = :name
