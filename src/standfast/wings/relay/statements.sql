-- Statements of relay. How they are written: store/statements.py.

-- name: write_aliases (postgres only)
-- locks: aliases
-- Which job an id stands for: its own, or the one that it was folded into. The first entry counts. SQLite needs none: jobs that
-- are folded there were answered by the same file.
INSERT INTO alias (id, owner, at) :rows(text, text, double precision)
ON CONFLICT (id) DO NOTHING

-- name: known_aliases (postgres only)
SELECT id FROM alias WHERE id IN :texts(ids)

-- name: delete_aliases (postgres only)
-- locks: aliases
DELETE FROM alias WHERE id IN (
  SELECT a.id FROM alias AS a WHERE a.at < :before AND NOT EXISTS (SELECT 1 FROM body AS b WHERE b.id = a.owner) LIMIT :limit
)
