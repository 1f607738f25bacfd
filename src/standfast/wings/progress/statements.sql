-- Statements of progress. How they are written: store/statements.py.

-- name: write_progress
-- locks: jobs
-- answers: none
-- Only under the token that the job has, and in the state that its attempt leaves it in: an attempt that lost it says
-- nothing any more, and what an attempt said late does not replace its last word.
INSERT INTO job_progress (n, token, attempt, fraction, note, at)
SELECT j.n, j.token, :attempt, :fraction::double precision, :note::text, :now::double precision
FROM job AS j WHERE j.n = :n AND j.token = :token AND j.state = :state::text
ON CONFLICT (n) DO UPDATE SET token = excluded.token, attempt = excluded.attempt, fraction = excluded.fraction,
  note = excluded.note, at = excluded.at
WHERE job_progress.token <= excluded.token

-- name: progress_of
-- What the present attempt said, or the last one of a job that does not run.
SELECT p.n, p.fraction, p.note, p.at, p.attempt FROM job_progress AS p JOIN job AS j ON j.n = p.n AND j.token = p.token
WHERE p.n IN :integers(numbers)

-- name: delete_progress
-- locks: jobs
DELETE FROM job_progress WHERE n IN :integers(numbers)
