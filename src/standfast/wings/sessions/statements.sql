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
-- The sessions of jobs that something other than a worker moved: number, session, handler, whether it was deferred,
-- attempts, replays, failure, whether a run may have done it.
SELECT b.n, b.details::json->>'session', j.handler, coalesce(b.details::json->>'queue_reason', '') = 'deferred_submit', j.attempts,
  coalesce(e.replays, 0), e.failure, coalesce(j.landed, '') = 'maybe'
FROM body AS b JOIN job AS j ON j.n = b.n LEFT JOIN ending AS e ON e.n = b.n
WHERE b.n IN :integers(numbers) AND b.details::json->>'session' IS NOT NULL

-- name: ends_not_seen
-- Of jobs that have just ended: number, present queue reason, and whether their session has an unread message about them.
SELECT b.n, b.details::json->>'queue_reason', b.n IN :integers(again) AND EXISTS (
  SELECT 1 FROM message AS m WHERE m.session = b.details::json->>'session' AND m.job = b.id AND m.read_at IS NULL)
FROM body AS b WHERE b.n IN :integers(numbers)

-- name: session_states
-- How many jobs of a session are in each state, and when the first of those is due.
SELECT j.state, count(*), min(j.due_at) FROM body AS b JOIN job AS j ON j.n = b.n
WHERE instr(b.details, '"session":') > 0 AND b.details->>'session' = :session AND (:queues IS NULL OR j.queue IN :texts(queues))
GROUP BY j.state

-- name: session_states (postgres)
-- The index finds every job with this name in its details, and so also a job without a session but with a label `session`.
SELECT j.state, count(*), min(j.due_at) FROM body AS b JOIN job AS j ON j.n = b.n
WHERE strpos(b.details, '"session":') > 0 AND substring(b.details FROM '"session":"((?:[^"\\]|\\.)*)"') = :quoted::text
  AND b.details::json->>'session' = :session AND (:queues::text IS NULL OR j.queue IN :texts(queues))
GROUP BY j.state

-- name: count_unread
SELECT count(*) FROM (
  SELECT read_at, row_number() OVER (PARTITION BY job ORDER BY at DESC, CASE WHEN kind IN ('retry_success', 'submit_done') THEN 0 ELSE 1 END, id DESC) AS nth FROM message WHERE session = :session) AS message
WHERE nth = 1 AND read_at IS NULL

-- name: workflow_steps
SELECT b.n, b.workflow, w.name, b.step FROM body AS b LEFT JOIN workflow AS w ON w.id = b.workflow
WHERE b.n IN :integers(numbers) AND b.workflow IS NOT NULL

-- name: unheard_job
-- A job whose caller went away: its state, what its end left, and whether its session has a message about it.
SELECT :columns(UnreadReply) FROM body AS b JOIN job AS j ON j.n = b.n LEFT JOIN ending AS e ON e.n = b.n WHERE b.id = :id

-- name: set_details
-- locks: jobs
UPDATE body SET details = :details WHERE n = :n

-- name: write_messages
-- locks: none
-- Each message is named after a job that this transaction has locked: no other transaction writes it.
INSERT INTO message (id, session, kind, job, queue, handler, at, body) :rows(text, text, text, text, text, text, double precision, text)
ON CONFLICT (id) DO NOTHING

-- name: receive_reply
-- locks: messages
UPDATE message SET read_at = :now WHERE session = :session AND job = :job AND read_at IS NULL

-- name: reopen_messages
-- locks: messages
-- Messages that were marked as read because a reply was given, which the caller then did not receive.
UPDATE message SET read_at = NULL WHERE session = :session AND job = :job AND kind IN ('retry_success', 'submit_done')

-- name: unread_messages
-- Only the last message about each job: earlier ones no longer hold. A success counts as the last of one moment.
SELECT :columns(Message) FROM (
  SELECT *, row_number() OVER (PARTITION BY job ORDER BY at DESC, CASE WHEN kind IN ('retry_success', 'submit_done') THEN 0 ELSE 1 END, id DESC) AS nth FROM message WHERE session = :session) AS message
WHERE nth = 1 AND read_at IS NULL ORDER BY at DESC, id DESC LIMIT :limit

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
-- A session's messages beyond the newest, and messages that were never fetched.
DELETE FROM message WHERE id IN (
  SELECT m.id FROM (SELECT session FROM message GROUP BY session HAVING count(*) > :most::bigint LIMIT :limit) AS f
  JOIN message AS m ON m.session = f.session
  WHERE m.at < (SELECT k.at FROM message AS k WHERE k.session = f.session ORDER BY k.at DESC LIMIT 1 OFFSET :most::bigint - 1)
  UNION ALL
  SELECT id FROM message WHERE at < :oldest
)
