-- Statements of sessions. How they are written: store/statements.py.

-- columns: standfast.wings.sessions.scripts.Message
from message: id, session, kind, job, queue, handler, at, read_at, body

-- columns: standfast.wings.sessions.scripts.UnreadReply
from j: token, queue, handler, state, attempts
from b: n, id, details
from e: result, warning
told: EXISTS (SELECT 1 FROM message AS m WHERE m.session = b.details->>'session' AND m.job = b.id)

-- columns: standfast.wings.sessions.scripts.UnreadReply (postgres)
told: EXISTS (SELECT 1 FROM message AS m WHERE m.session = b.details::json->>'session' AND m.job = b.id)

-- name: origins_of
-- For which session jobs are done that somebody else than a worker moved: number, session, handler, whether it was
-- deferred, attempts, replays, failure, whether a run may have done it.
SELECT b.n, b.details::json->>'session', j.handler, coalesce(b.details::json->>'queue_reason', '') = 'deferred_submit', j.attempts,
  coalesce(e.replays, 0), e.failure, coalesce(j.landed, '') = 'maybe'
FROM body AS b JOIN job AS j ON j.n = b.n LEFT JOIN ending AS e ON e.n = b.n
WHERE b.n IN :integers(numbers) AND b.details::json->>'session' IS NOT NULL

-- name: unheard_job
-- A job whose caller went away: how it stands, what its end left, and whether its session was told of it.
SELECT :columns(UnreadReply) FROM body AS b JOIN job AS j ON j.n = b.n LEFT JOIN ending AS e ON e.n = b.n WHERE b.id = :id

-- name: set_details
-- locks: jobs
UPDATE body SET details = :details WHERE n = :n

-- name: write_messages
-- locks: none
-- Each is named after a job that this transaction has locked: no other writes it.
INSERT INTO message (id, session, kind, job, queue, handler, at, body) :rows(text, text, text, text, text, text, double precision, text)
ON CONFLICT (id) DO NOTHING

-- name: unread_messages
SELECT :columns(Message) FROM message
WHERE session = :session AND read_at IS NULL ORDER BY at DESC, id DESC LIMIT :limit

-- name: all_messages
SELECT :columns(Message) FROM message
WHERE session = :session ORDER BY at DESC, id DESC LIMIT :limit

-- name: read_messages
-- locks: messages
UPDATE message SET read_at = coalesce(read_at, :now)
WHERE id IN :texts(ids) AND (:session IS NULL OR session = :session)
RETURNING id

-- name: read_messages (postgres)
UPDATE message SET read_at = coalesce(read_at, :now) WHERE id IN (
  SELECT id FROM message WHERE id IN :texts(ids)
    AND (:session::text IS NULL OR session = :session) ORDER BY id FOR UPDATE)
RETURNING id

-- name: delete_messages
-- locks: messages
-- waits: no
DELETE FROM message WHERE id IN (SELECT id FROM message WHERE read_at < :before LIMIT :limit FOR UPDATE SKIP LOCKED)

-- name: delete_surplus_messages
-- locks: messages
-- What a session has beyond its newest messages, and what was never fetched.
DELETE FROM message WHERE id IN (
  SELECT m.id FROM (SELECT session FROM message GROUP BY session HAVING count(*) > :most::bigint LIMIT :limit) AS f
  JOIN message AS m ON m.session = f.session
  WHERE m.at < (SELECT k.at FROM message AS k WHERE k.session = f.session ORDER BY k.at DESC LIMIT 1 OFFSET :most::bigint - 1)
  UNION ALL
  SELECT id FROM message WHERE at < :oldest
)
