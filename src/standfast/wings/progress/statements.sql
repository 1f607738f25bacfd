-- Statements of progress. How they are written: store/statements.py.

-- name: write_progress
-- locks: jobs
-- answers: none
-- Only under the job's present token, and in the state that its attempt leaves it in: an attempt that lost the job reports
-- nothing any more, and a late report does not replace the attempt's last one.
INSERT INTO job_progress (n, token, attempt, fraction, note, at)
SELECT j.n, j.token, :attempt, :fraction::double precision, :note::text, :now::double precision
FROM job AS j WHERE j.n = :n AND j.token = :token AND j.state = :state::text
ON CONFLICT (n) DO UPDATE SET token = excluded.token, attempt = excluded.attempt, fraction = excluded.fraction,
  note = excluded.note, at = excluded.at
WHERE job_progress.token <= excluded.token

-- name: progress_of
-- The report of the present attempt, or of the last one if the job does not run.
SELECT p.n, p.fraction, p.note, p.at, p.attempt FROM job_progress AS p JOIN job AS j ON j.n = p.n AND j.token = p.token
WHERE p.n IN :integers(numbers)

-- name: delete_progress
-- locks: jobs
DELETE FROM job_progress WHERE n IN :integers(numbers)
