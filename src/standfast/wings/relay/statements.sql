-- Statements of relay. How they are written: store/statements.py.

-- name: write_aliases
-- locks: aliases
-- Ids that were brought: brought again, they are known. At most once a day, the time is that of the last time. Who owns an id need
-- not be known: jobs that are folded here were answered by the same file.
WITH fresh (id, owner, at) AS (:rows(text, text, double precision))
INSERT INTO former_letter (id, at) SELECT 'brought:' || fresh.id, fresh.at FROM fresh WHERE true
ON CONFLICT (id) DO UPDATE SET at = excluded.at WHERE former_letter.at < excluded.at - 86400

-- name: write_aliases (postgres)
-- Which job an id stands for: its own, or the one that it was folded into. The first entry counts.
INSERT INTO alias (id, owner, at) :rows(text, text, double precision)
ON CONFLICT (id) DO UPDATE SET at = excluded.at WHERE alias.at < excluded.at - 86400

-- name: known_aliases
SELECT e.value FROM json_each(:ids) AS e CROSS JOIN former_letter AS f ON f.id = 'brought:' || e.value

-- name: known_aliases (postgres)
-- Some may have been brought to a SQLite store that was promoted.
SELECT id FROM alias WHERE id IN :texts(ids)
UNION ALL SELECT e.id FROM jsonb_array_elements_text(:ids::jsonb) AS e(id) JOIN former_letter AS f ON f.id = 'brought:' || e.id

-- name: delete_aliases
-- locks: aliases
-- Walks only through a week of former letters. What is older because nobody pruned for longer is deleted with those.
DELETE FROM former_letter WHERE id IN (
  SELECT id FROM former_letter WHERE at < :before AND at >= :before - 604800 AND substr(id, 1, 8) = 'brought:' LIMIT :limit)

-- name: delete_aliases (postgres)
DELETE FROM alias WHERE id IN (
  SELECT a.id FROM alias AS a WHERE a.at < :before AND NOT EXISTS (SELECT 1 FROM body AS b WHERE b.id = a.owner) LIMIT :limit
)
