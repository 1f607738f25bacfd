-- Statements of consent. How they are written: store/statements.py.

-- columns: standfast.wings.consent.words.Grant
from consent: id, session, queue, handler, mode, given_by, reason, granted_at, expires_at, uses, used, revoked_at

-- columns: standfast.wings.consent.scripts.ConsentRequest
from a: n, job, session, queue, handler, first, asked_at
from j: token, state
id: b.id
gate: j.thread_gate
details: b.details
risk: (SELECT h.risk FROM handler AS h WHERE h.queue = j.queue AND h.name = j.handler)

-- name: asks_consent
SELECT 1 FROM handler WHERE queue = :queue AND name = :handler AND consent <> 0

-- name: lock_consents
-- locks: consent
-- A transaction that spends one locks them until its commit.
SELECT :columns(Grant)
FROM consent WHERE session = :session AND expires_at > :now AND revoked_at IS NULL ORDER BY id FOR UPDATE

-- name: consents_of
SELECT :columns(Grant)
FROM consent WHERE session = :session AND expires_at > :now AND revoked_at IS NULL ORDER BY id

-- name: consents_used
SELECT u.consent FROM json_each(:ids) AS e CROSS JOIN consent_use AS u ON u.consent = e.value AND u.job = :job

-- name: consents_used (postgres)
SELECT u.consent FROM jsonb_array_elements_text(:ids::jsonb) AS e JOIN consent_use AS u ON u.consent = e AND u.job = :job

-- name: spend_consent
-- locks: consent
INSERT INTO consent_use (consent, job, at) VALUES (:id, :job, :now) ON CONFLICT DO NOTHING

-- name: count_consent
-- locks: consent
UPDATE consent SET used = used + 1 WHERE id = :id AND used < uses RETURNING id

-- name: give_consents
-- locks: consent
INSERT INTO consent (id, session, queue, handler, mode, given_by, reason, granted_at, expires_at, uses, used, revoked_at) :rows(text, text, text, text, text, text, text, double precision, double precision, integer, integer, double precision)
ON CONFLICT (id) DO NOTHING

-- name: revoke_consents
-- locks: consent
UPDATE consent SET revoked_at = :now
WHERE session = :session AND revoked_at IS NULL AND expires_at > :now
  AND (:handler IS NULL OR (queue = :queue AND handler = :handler))
RETURNING id

-- name: revoke_consents (postgres)
UPDATE consent SET revoked_at = :now WHERE id IN (
  SELECT id FROM consent WHERE session = :session AND revoked_at IS NULL AND expires_at > :now
    AND (:handler::text IS NULL OR (queue = :queue::text AND handler = :handler)) ORDER BY id FOR UPDATE)
RETURNING id

-- name: list_consents
SELECT :columns(Grant)
FROM consent WHERE (:session::text IS NULL OR session = :session) AND expires_at > :now AND revoked_at IS NULL
ORDER BY granted_at DESC, id LIMIT :limit

-- name: file_asks
-- locks: consent
-- The work is named by the job's id, and with an amended payload also by its generation; `first` is Claim.never_ran.
INSERT INTO consent_ask (n, job, session, queue, handler, first, asked_at)
SELECT b.n, iif(b.generation > 0, b.id || '~g' || b.generation, b.id), coalesce(b.details->>'session', ''), j.queue, j.handler,
  j.attempts = 0 AND j.landed IS NOT 'maybe' AND coalesce(e.replays, 0) = 0, :now
FROM json_each(:numbers) AS a CROSS JOIN body AS b ON b.n = a.value CROSS JOIN job AS j ON j.n = b.n LEFT JOIN ending AS e ON e.n = b.n WHERE true
ON CONFLICT (n) DO NOTHING

-- name: file_asks (postgres)
INSERT INTO consent_ask (n, job, session, queue, handler, first, asked_at)
SELECT b.n, CASE WHEN b.generation > 0 THEN b.id || '~g' || b.generation ELSE b.id END, coalesce(b.details::json->>'session', ''),
  j.queue, j.handler, (j.attempts = 0 AND j.landed IS DISTINCT FROM 'maybe' AND coalesce(e.replays, 0) = 0)::integer, :now
FROM body AS b JOIN job AS j ON j.n = b.n LEFT JOIN ending AS e ON e.n = b.n
WHERE b.n IN :integers(numbers)
ON CONFLICT (n) DO NOTHING

-- name: drop_asks
-- locks: consent
DELETE FROM consent_ask WHERE n IN :integers(numbers)

-- name: list_asks
SELECT :columns(ConsentRequest)
FROM consent_ask AS a JOIN body AS b ON b.n = a.n JOIN job AS j ON j.n = a.n
WHERE (:session::text IS NULL OR a.session = :session) ORDER BY a.asked_at, a.n LIMIT :limit

-- name: asks_by_queue
SELECT queue, count(*), count(*) FILTER (WHERE asked_at > :since) FROM consent_ask GROUP BY queue

-- name: ask_of
SELECT :columns(ConsentRequest)
FROM body AS b JOIN consent_ask AS a ON a.n = b.n JOIN job AS j ON j.n = b.n WHERE b.id = :id

-- name: answered_asks
-- The requests that words.ruling can answer, the oldest first, after one of them.
SELECT :columns(ConsentRequest)
FROM consent_ask AS a JOIN body AS b ON b.n = a.n JOIN job AS j ON j.n = a.n
WHERE (a.asked_at, a.n) > (:asked_at, :n)
  AND EXISTS (SELECT 1 FROM consent AS c WHERE c.session = a.session AND c.expires_at > :now AND c.revoked_at IS NULL
    AND (c.handler = '*' OR (c.queue = a.queue AND c.handler = a.handler))
    AND (c.mode = 'deny' OR ((c.handler <> '*' OR a.first <> 0) AND (c.uses IS NULL OR c.used < c.uses
      OR EXISTS (SELECT 1 FROM consent_use AS u WHERE u.consent = c.id AND u.job = a.job)))))
ORDER BY a.asked_at, a.n LIMIT :limit

-- name: uses_left
SELECT uses - used FROM consent WHERE id = :id

-- name: delete_consent_uses
-- locks: consent
DELETE FROM consent_use WHERE consent IN (SELECT id FROM consent WHERE expires_at < :before LIMIT :limit)

-- name: delete_consents
-- locks: consent
DELETE FROM consent WHERE id IN (SELECT id FROM consent WHERE expires_at < :before LIMIT :limit)
  AND NOT EXISTS (SELECT 1 FROM consent_use AS u WHERE u.consent = consent.id)
