-- Statements of relay. How they are written: store/statements.py.

-- name: write_aliases (postgres only)
-- locks: aliases
-- Which job answers for an id: its own, or the one that took it in. The first word counts. SQLite has nothing to remember:
-- what is folded there was answered by that very file.
INSERT INTO alias (id, owner, at) :rows(text, text, double precision)
ON CONFLICT (id) DO NOTHING

-- name: known_aliases (postgres only)
SELECT id FROM alias WHERE id IN :texts(ids)

-- name: delete_aliases (postgres only)
-- locks: aliases
DELETE FROM alias WHERE id IN (
  SELECT a.id FROM alias AS a WHERE a.at < :before AND NOT EXISTS (SELECT 1 FROM body AS b WHERE b.id = a.owner) LIMIT :limit
)
