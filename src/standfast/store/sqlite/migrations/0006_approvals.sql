-- What somebody was asked to allow: a letter's replay, or a whole redrive. `bound` is what was shown to whoever answers;
-- a letter has one open approval at most. `answer` says why it was answered so, or why it is void. A library that does
-- not know this table would replay what still waits for its answer, so it may not use the store any more.
CREATE TABLE approval (
  id          TEXT PRIMARY KEY,
  n           INTEGER,
  redrive     TEXT,
  state       TEXT NOT NULL,
  asked_by    TEXT,
  reason      TEXT,
  requesters  TEXT NOT NULL,
  groups      TEXT NOT NULL,
  bound       TEXT NOT NULL,
  rule        TEXT NOT NULL,
  asked_at    REAL NOT NULL,
  expires_at  REAL NOT NULL,
  answered_by TEXT,
  answered_at REAL,
  answer      TEXT
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX approval_open ON approval (n) WHERE n IS NOT NULL AND state IN ('pending', 'approved');
CREATE INDEX approval_expiring ON approval (expires_at) WHERE state = 'pending';
CREATE INDEX approval_unused ON approval (answered_at) WHERE state = 'approved';

-- Many letters put back to work as one decision: first a plan, then what came of it. `course` is its rate, canary and
-- halt; `episode` counts how often it went on after a halt: each is judged by itself. One worker drives it at a time.
CREATE TABLE redrive (
  id         TEXT PRIMARY KEY,
  state      TEXT NOT NULL,
  wanted     TEXT NOT NULL,
  foreseen   TEXT NOT NULL,
  snapshot   TEXT NOT NULL,
  course     TEXT NOT NULL,
  asked_by   TEXT,
  reason     TEXT,
  approval   TEXT,
  note       TEXT,
  episode    INTEGER NOT NULL DEFAULT 1,
  planned_at REAL NOT NULL,
  started_at REAL,
  ended_at   REAL,
  next_at    REAL NOT NULL DEFAULT 0,
  driver     TEXT,
  driven_until REAL NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX redrive_running ON redrive (id) WHERE state = 'running';

-- The letters of a plan, as they stood when it was made. `state` is waiting, released or ended.
CREATE TABLE redriven (
  redrive  TEXT NOT NULL,
  place    INTEGER NOT NULL,
  n        INTEGER NOT NULL,
  token    INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  fate     TEXT NOT NULL,
  state    TEXT NOT NULL DEFAULT 'waiting',
  outcome  TEXT,
  episode  INTEGER,
  at       REAL,
  PRIMARY KEY (redrive, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX redriven_ended ON redriven (redrive, episode, at) WHERE state = 'ended';

-- Whether a thread went on without a letter: the newer jobs of it that ended.
CREATE INDEX job_thread_ended ON job (thread_gate, n) WHERE thread_gate IS NOT NULL AND finished_at IS NOT NULL;
