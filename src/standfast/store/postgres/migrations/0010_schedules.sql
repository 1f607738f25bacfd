-- What is to be enqueued again and again, or once at a time. `spec` is what was asked for, `timing` the part of it that
-- says when. `next_at` and `anchor` are queue time and belong to intervals, which no wall clock moves; `next_wall` is wall
-- time and belongs to cron and to single times. A schedule that is over has neither. Schedules are few: nothing is hot here.
CREATE TABLE schedule (
  name      text PRIMARY KEY,
  queue     text NOT NULL,
  spec      text NOT NULL,
  timing    text NOT NULL,
  added_by  text NOT NULL,
  anchor    double precision NOT NULL,
  next_at   double precision,
  next_wall double precision,
  paused    integer NOT NULL DEFAULT 0,
  last_tick double precision,
  last_job  text,
  runs      integer NOT NULL DEFAULT 0,
  coalesced integer NOT NULL DEFAULT 0,
  missed    integer NOT NULL DEFAULT 0,
  ended_at  double precision
);
CREATE INDEX schedule_next_at ON schedule (next_at) WHERE next_at IS NOT NULL AND paused = 0;
CREATE INDEX schedule_next_wall ON schedule (next_wall) WHERE next_wall IS NOT NULL AND paused = 0;

-- Each tick that ran, by the time it was for: none runs twice, whatever the clock does. It stays when its schedule goes.
CREATE TABLE tick (
  schedule text NOT NULL,
  tick     double precision NOT NULL,
  at       double precision NOT NULL,
  job      text,
  PRIMARY KEY (schedule, tick)
);
CREATE INDEX tick_at ON tick (at);
