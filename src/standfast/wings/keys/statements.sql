-- Statements of keys. How they are written: store/statements.py.

-- name: take_keys
-- locks: keys
-- An expired key is free again; a key whose job is not final never expires.
WITH fresh (queue, key, id, fingerprint, now) AS (VALUES :rows)
INSERT INTO idempotency (queue, key, id, fingerprint)
SELECT queue, key, id, fingerprint FROM fresh WHERE true
ON CONFLICT (queue, key) DO UPDATE
SET id = excluded.id, fingerprint = excluded.fingerprint, until = NULL
WHERE idempotency.until <= (SELECT now FROM fresh)

-- name: take_keys (postgres)
-- An expired key is free again; a key whose job is not final never expires. If a key comes twice, the first row counts.
-- A key that another job has is not even locked: that job's end and this transaction would wait for each other.
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
SELECT e.value->>2, k.id, k.fingerprint, j.state, k.until IS NOT NULL
FROM json_each(:keys) AS e
JOIN idempotency AS k ON k.queue = e.value->>0 AND k.key = e.value->>1
LEFT JOIN body AS b ON b.id = k.id
LEFT JOIN job AS j ON j.n = b.n

-- name: key_owners (postgres)
SELECT r->>2, k.id, k.fingerprint, j.state, k.until IS NOT NULL
FROM jsonb_array_elements(:keys::jsonb) AS r
JOIN idempotency AS k ON k.queue = r->>0 AND k.key = r->>1
LEFT JOIN body AS b ON b.id = k.id
LEFT JOIN job AS j ON j.n = b.n

-- name: release_keys
-- locks: keys
-- answers: none
-- Only from now on may the keys of these jobs expire, including those of jobs folded into them.
UPDATE idempotency SET until = :now + coalesce((SELECT q.rules->>'keep_keys' FROM queue AS q WHERE q.name = idempotency.queue), :keep_keys)
WHERE until IS NULL AND id IN (SELECT b.id FROM json_each(:numbers) AS e JOIN body AS b ON b.n = e.value)

-- name: release_keys (postgres)
UPDATE idempotency
SET until = :now + coalesce((SELECT (q.rules::json->>'keep_keys')::double precision FROM queue AS q WHERE q.name = idempotency.queue), :keep_keys)
WHERE until IS NULL AND id = ANY (ARRAY(
  SELECT b.id FROM body AS b WHERE b.n IN :integers(numbers)))

-- name: delete_keys
-- locks: keys
-- waits: no
DELETE FROM idempotency WHERE (queue, key) IN (
  SELECT queue, key FROM idempotency WHERE until <= :now LIMIT :limit FOR UPDATE SKIP LOCKED
)

-- name: hand_key_over
-- locks: keys
UPDATE idempotency SET id = :id WHERE queue = :queue AND key = :key

-- name: forget_keys
-- locks: keys
DELETE FROM idempotency WHERE until IS NULL AND id IN :texts(ids)
