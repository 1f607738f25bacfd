-- Statements of schedules. How they are written: store/statements.py.

-- columns: standfast.wings.schedules.scripts.Schedule
from schedule: name, queue, spec, timing, added_by, anchor, next_at, next_wall, paused, last_tick, last_job, runs, coalesced, missed, ended_at

-- name: schedule_rows
SELECT :columns(Schedule)
FROM schedule ORDER BY name

-- name: schedule_row
SELECT :columns(Schedule)
FROM schedule WHERE name = :name

-- name: lock_schedule
-- locks: schedules
-- SQLite has one writer at a time.
SELECT :columns(Schedule)
FROM schedule WHERE name = :name FOR UPDATE

-- name: lock_free_schedules
-- locks: schedules
-- waits: no
-- SQLite has one writer at a time.
-- On PostgreSQL, the first transaction has the row; the others do not wait for it.
SELECT :columns(Schedule)
FROM schedule WHERE name IN :texts(names) ORDER BY name FOR UPDATE SKIP LOCKED

-- name: due_schedules
SELECT :columns(Schedule)
FROM schedule WHERE next_at <= :now AND next_at IS NOT NULL AND paused = 0
UNION ALL
SELECT :columns(Schedule)
FROM schedule WHERE next_wall <= :wall AND next_wall IS NOT NULL AND paused = 0
LIMIT :limit

-- name: next_ticks
SELECT (SELECT min(next_at) FROM schedule WHERE next_at IS NOT NULL AND paused = 0),
  (SELECT min(next_wall) FROM schedule WHERE next_wall IS NOT NULL AND paused = 0)

-- name: write_schedule
-- locks: schedules
INSERT INTO schedule (name, queue, spec, timing, added_by, anchor, next_at, next_wall, ended_at)
VALUES (:name, :queue, :spec, :timing, :by, :anchor, :next_at, :next_wall, :ended_at)
ON CONFLICT (name) DO UPDATE
SET queue = excluded.queue, spec = excluded.spec, timing = excluded.timing, added_by = excluded.added_by, anchor = excluded.anchor,
  next_at = excluded.next_at, next_wall = excluded.next_wall, ended_at = excluded.ended_at

-- name: pause_schedule
-- locks: schedules
UPDATE schedule SET paused = :paused, next_at = :next_at, next_wall = :next_wall, ended_at = :ended_at WHERE name = :name

-- name: move_schedule
-- locks: schedules
UPDATE schedule SET next_at = :next_at, next_wall = :next_wall, ended_at = :ended_at, last_tick = coalesce(:last_tick::double precision, last_tick),
  last_job = coalesce(:last_job::text, last_job), runs = runs + :runs, coalesced = coalesced + :coalesced, missed = missed + :missed
WHERE name = :name

-- name: delete_schedule
-- locks: schedules
DELETE FROM schedule WHERE name = :name

-- name: known_ticks
SELECT tick FROM tick WHERE schedule = :name AND tick BETWEEN :first AND :last

-- name: write_ticks
-- locks: schedules
INSERT INTO tick (schedule, tick, at, job) :rows(text, double precision, double precision, text)

-- name: late_schedules
-- Schedules that should have run by now, and schedules whose queue is paused.
SELECT s.name, s.queue, s.next_at, s.next_wall, coalesce(q.paused, 0) FROM schedule AS s LEFT JOIN queue AS q ON q.name = s.queue
WHERE s.paused = 0 AND (s.next_at < :now OR s.next_wall < :wall OR (q.paused = 1 AND s.ended_at IS NULL))
ORDER BY s.name LIMIT :limit

-- name: delete_ticks
-- locks: schedules
DELETE FROM tick WHERE (schedule, tick) IN (SELECT schedule, tick FROM tick WHERE at < :before ORDER BY at LIMIT :limit)

-- name: delete_ended_schedules
-- locks: schedules
DELETE FROM schedule WHERE ended_at < :before

-- name: declared_schedules
SELECT name, module, queues, declared_at, gone_at FROM declared_schedule ORDER BY name

-- name: declare_schedule
-- locks: schedules
INSERT INTO declared_schedule (name, module, queues, declared_at) VALUES (:name, :module, :queues, :now)
ON CONFLICT (name) DO UPDATE
SET module = excluded.module, queues = excluded.queues, declared_at = excluded.declared_at, gone_at = NULL

-- name: lock_declared_schedule
-- locks: schedules
-- SQLite has one writer at a time.
SELECT name, module, queues, declared_at, gone_at FROM declared_schedule WHERE name = :name FOR UPDATE

-- name: renew_declared_schedules
-- locks: schedules
UPDATE declared_schedule SET declared_at = :now WHERE name IN :texts(names) AND declared_at < :now

-- name: mark_schedule_gone
-- locks: schedules
UPDATE declared_schedule SET gone_at = :gone_at WHERE name = :name

-- name: forget_declared_schedule
-- locks: schedules
DELETE FROM declared_schedule WHERE name = :name
