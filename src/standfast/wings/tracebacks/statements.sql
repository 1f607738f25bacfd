-- Statements of tracebacks. How they are written: store/statements.py.

-- name: write_tracebacks
-- locks: jobs
INSERT INTO traceback (n, attempt, text) :rows(bigint, integer, text)
ON CONFLICT (n) DO UPDATE SET attempt = excluded.attempt, text = excluded.text

-- name: delete_tracebacks
-- locks: jobs
DELETE FROM traceback WHERE n IN :integers(numbers)

-- name: tracebacks_of
SELECT n, attempt, text FROM traceback WHERE n IN :integers(numbers)
