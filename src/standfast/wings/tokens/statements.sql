-- Statements of tokens. How they are written: store/statements.py.

-- columns: standfast.wings.tokens.scripts.TokenRow
from token: id, name, hash, person, role, groups, queues, created_by, created_at, expires_at, revoked_at, sessions, created_with

-- name: free_token_name
-- locks: tokens
-- An expired token gives its name back.
UPDATE token SET revoked_at = expires_at WHERE name = :name AND revoked_at IS NULL AND expires_at <= :now

-- name: create_token
-- locks: tokens
INSERT INTO token (id, name, hash, person, role, groups, queues, created_by, created_at, expires_at, sessions, created_with)
VALUES (:id, :name, :hash, :person, :role, :groups, :queues, :created_by, :now, :expires_at, :sessions, :created_with)
ON CONFLICT DO NOTHING
RETURNING id

-- name: revoke_token
-- locks: tokens
UPDATE token SET revoked_at = :now WHERE name = :name AND revoked_at IS NULL RETURNING id

-- name: token
SELECT :columns(TokenRow)
FROM token WHERE id = :id

-- name: tokens
SELECT :columns(TokenRow)
FROM token WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) ORDER BY created_at DESC, id

-- name: shared_setting
SELECT value FROM shared_setting WHERE name = :name

-- name: write_shared_setting
-- locks: tokens
INSERT INTO shared_setting (name, value, published_by, published_at) VALUES (:name, :value, :by, :now)
ON CONFLICT (name) DO UPDATE
SET value = excluded.value, published_by = excluded.published_by, published_at = excluded.published_at
WHERE shared_setting.value <> excluded.value
RETURNING name

-- name: open_session
-- locks: tokens
INSERT INTO browser_session (hash, token, audience, created_at, ends_at, expires_at)
VALUES (:hash, :token, :audience, :now, :ends_at, :expires_at)

-- name: trim_sessions
-- locks: tokens
-- waits: no
-- A token has a limited number of browsers: the oldest are signed out.
DELETE FROM browser_session WHERE hash IN (
  SELECT hash FROM browser_session WHERE token = :token ORDER BY created_at DESC, hash LIMIT :limit OFFSET :most FOR UPDATE SKIP LOCKED)

-- name: session
-- The token of a session, and when the session ends.
SELECT :columns(TokenRow), s.expires_at
FROM browser_session AS s JOIN token ON token.id = s.token WHERE s.hash = :hash AND s.audience = :audience

-- name: renew_session
-- locks: tokens
UPDATE browser_session SET expires_at = min(ends_at, :until) WHERE hash = :hash AND expires_at > :now

-- name: renew_session (postgres)
UPDATE browser_session SET expires_at = LEAST(ends_at, :until) WHERE hash = :hash AND expires_at > :now

-- name: close_session
-- locks: tokens
DELETE FROM browser_session WHERE hash = :hash

-- name: delete_sessions
-- locks: tokens
-- waits: no
DELETE FROM browser_session WHERE hash IN (
  SELECT hash FROM browser_session WHERE expires_at <= :now LIMIT :limit FOR UPDATE SKIP LOCKED) RETURNING 1
