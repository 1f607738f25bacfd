-- What is to be enqueued again and again, or once at a time. `spec` is what was asked for, `timing` the part of it that
-- says when. `next_at` and `anchor` are queue time and belong to intervals, which no wall clock moves; `next_wall` is wall
-- time and belongs to cron and to single times. A schedule that is over has neither. Schedules are few: nothing is hot here.
CREATE TABLE schedule (
  name      TEXT PRIMARY KEY,
  queue     TEXT NOT NULL,
  spec      TEXT NOT NULL,
  timing    TEXT NOT NULL,
  added_by  TEXT NOT NULL,
  anchor    REAL NOT NULL,
  next_at   REAL,
  next_wall REAL,
  paused    INTEGER NOT NULL DEFAULT 0,
  last_tick REAL,
  last_job  TEXT,
  runs      INTEGER NOT NULL DEFAULT 0,
  coalesced INTEGER NOT NULL DEFAULT 0,
  missed    INTEGER NOT NULL DEFAULT 0,
  ended_at  REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_next_at ON schedule (next_at) WHERE next_at IS NOT NULL AND paused = 0;
CREATE INDEX schedule_next_wall ON schedule (next_wall) WHERE next_wall IS NOT NULL AND paused = 0;

-- Each tick that ran, by the time it was for: none runs twice, whatever the clock does. It stays when its schedule goes.
CREATE TABLE tick (
  schedule TEXT NOT NULL,
  tick     REAL NOT NULL,
  at       REAL NOT NULL,
  job      TEXT,
  PRIMARY KEY (schedule, tick)
) STRICT, WITHOUT ROWID;
CREATE INDEX tick_at ON tick (at);
