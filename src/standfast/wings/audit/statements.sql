-- Statements of audit. How they are written: store/statements.py.

-- columns: standfast.wings.audit.words.Link
from audit: seq, at, entries, previous, hash

-- name: chain_head
-- locks: chain
-- SQLite has one writer at a time, and what it reads is the head until its commit.
-- On PostgreSQL the writer of a link holds this until its commit: the links of many hosts are one chain. It is locked last of all.
SELECT store, seq, hash FROM chain FOR UPDATE

-- name: begin_chain
-- locks: chain
INSERT INTO chain (only_one, store, seq, hash) VALUES (1, lower(hex(randomblob(16))), -1, printf('%064d', 0))
ON CONFLICT (only_one) DO NOTHING

-- name: begin_chain (postgres)
INSERT INTO chain (only_one, store, seq, hash) VALUES (1, replace(gen_random_uuid()::text, '-', ''), -1, repeat('0', 64))
ON CONFLICT (only_one) DO NOTHING

-- name: write_links
-- locks: chain
INSERT INTO audit (seq, at, entries, previous, hash) :rows(bigint, text, text, text, text)

-- name: move_head
-- locks: chain
UPDATE chain SET seq = :seq, hash = :hash

-- name: peek_head
SELECT store, seq, hash FROM chain

-- name: read_links
SELECT :columns(Link) FROM audit
WHERE seq > :after AND (:job = '' OR instr(entries, :job) > 0) AND (:kind = '' OR instr(entries, :kind) > 0)
ORDER BY seq LIMIT :limit

-- name: read_links (postgres)
SELECT :columns(Link) FROM audit
WHERE seq > :after AND (:job = '' OR position(:job IN entries) > 0) AND (:kind = '' OR position(:kind IN entries) > 0)
ORDER BY seq LIMIT :limit

-- name: links_to_note
SELECT min(seq), max(seq), min(at), max(at) FROM audit WHERE seq > :after AND (:file = '' OR instr(entries, :file) > 0)

-- name: links_to_note (postgres)
SELECT min(seq), max(seq), min(at), max(at) FROM audit WHERE seq > :after AND (:file::text = '' OR position(:file IN entries) > 0)

-- name: link_hashes
SELECT seq, hash FROM audit WHERE seq IN :integers(numbers)
