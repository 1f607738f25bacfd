-- Statements of imports. How they are written: store/statements.py.

-- name: imported_payloads
-- The payloads of records that came before, unless something has changed them since.
SELECT id, payload FROM body WHERE id IN :texts(ids) AND generation = 0 AND coalesced IS NULL

-- name: remember_imported
-- locks: jobs
-- An import does not bring these in again, even after they were pruned.
INSERT INTO former_letter (id, at) :rows(text, double precision)
ON CONFLICT (id) DO NOTHING

-- name: keep_attempts
-- locks: jobs
WITH fresh (id, attempts, landed) AS (:rows(text, integer, text))
UPDATE job SET attempts = fresh.attempts, landed = fresh.landed
FROM fresh JOIN body AS b ON b.id = fresh.id WHERE job.n = b.n

-- name: keep_imported_history
-- locks: jobs
WITH fresh (id, line, entry) AS (:rows(text, integer, text))
INSERT INTO history (n, line, entry)
SELECT b.n, fresh.line, fresh.entry FROM fresh JOIN body AS b ON b.id = fresh.id
