-- What somebody was asked to allow: a letter's replay, or a whole redrive. `bound` is what was shown to whoever answers;
-- a letter has one open approval at most. `answer` says why it was answered so, or why it is void. A library that does
-- not know this table would replay what still waits for its answer, so it may not use the store any more.
CREATE TABLE approval (
  id          text PRIMARY KEY,
  n           bigint,
  redrive     text,
  state       text NOT NULL,
  asked_by    text,
  reason      text,
  requesters  text NOT NULL,
  groups      text NOT NULL,
  bound       text NOT NULL,
  rule        text NOT NULL,
  asked_at    double precision NOT NULL,
  expires_at  double precision NOT NULL,
  answered_by text,
  answered_at double precision,
  answer      text
);
CREATE UNIQUE INDEX approval_open ON approval (n) WHERE n IS NOT NULL AND state IN ('pending', 'approved');
CREATE INDEX approval_expiring ON approval (expires_at) WHERE state = 'pending';
CREATE INDEX approval_unused ON approval (answered_at) WHERE state = 'approved';

-- Many letters put back to work as one decision: first a plan, then what came of it. `course` is its rate, canary and
-- halt; `episode` counts how often it went on after a halt: each is judged by itself. One worker drives it at a time.
CREATE TABLE redrive (
  id         text PRIMARY KEY,
  state      text NOT NULL,
  wanted     text NOT NULL,
  foreseen   text NOT NULL,
  snapshot   text NOT NULL,
  course     text NOT NULL,
  asked_by   text,
  reason     text,
  approval   text,
  note       text,
  episode    integer NOT NULL DEFAULT 1,
  planned_at double precision NOT NULL,
  started_at double precision,
  ended_at   double precision,
  next_at    double precision NOT NULL DEFAULT 0,
  driver     text,
  driven_until double precision NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX redrive_running ON redrive (id) WHERE state = 'running';

-- The letters of a plan, as they stood when it was made. `state` is waiting, released or ended.
CREATE TABLE redriven (
  redrive  text NOT NULL,
  place    integer NOT NULL,
  n        bigint NOT NULL,
  token    integer NOT NULL,
  generation integer NOT NULL,
  fate     text NOT NULL,
  state    text NOT NULL DEFAULT 'waiting',
  outcome  text,
  episode  integer,
  at       double precision,
  PRIMARY KEY (redrive, place)
);
CREATE INDEX redriven_ended ON redriven (redrive, episode, at) WHERE state = 'ended';

-- Whether a thread went on without a letter: the newer jobs of it that ended.
CREATE INDEX job_thread_ended ON job (thread_gate, n) WHERE thread_gate IS NOT NULL AND finished_at IS NOT NULL;
