-- Statements of notices. How they are written: store/statements.py.

-- columns: standfast.wings.notices.scripts.JournalRow
from journal: seq, at, entries

-- name: journal_end
SELECT coalesce(max(seq), 0), 0, 0 FROM journal

-- name: journal_end (postgres)
-- How many rows have no number yet is counted up to a bound. The last column grows beyond it.
SELECT (SELECT coalesce(max(seq), 0) FROM journal), (SELECT count(*) FROM (SELECT 1 FROM told ORDER BY id LIMIT :most) AS head),
  (SELECT coalesce(max(id), 0) FROM told)

-- name: journal_after
SELECT :columns(JournalRow) FROM journal WHERE seq > :after ORDER BY seq LIMIT :limit

-- name: retry_lines
SELECT b.id, h.entry FROM body AS b JOIN history AS h ON h.n = b.n WHERE b.id IN :texts(ids)

-- name: begin_following
-- locks: followers
INSERT INTO follower (name, seq) VALUES (:name, :seq) ON CONFLICT (name) DO NOTHING

-- name: lock_follower
-- locks: followers
SELECT seq FROM follower WHERE name = :name FOR UPDATE

-- name: move_follower
-- locks: followers
UPDATE follower SET seq = max(seq, :seq) WHERE name = :name

-- name: move_follower (postgres)
UPDATE follower SET seq = greatest(seq, :seq) WHERE name = :name

-- name: follower
SELECT seq FROM follower WHERE name = :name
