-- The hot row: narrow, rewritten by every claim and settle. `ready_at` is set exactly while the job may be claimed,
-- `finished_at` exactly while it is completed, cancelled, dead or held. A CHECK on the state would cost a tenth of
-- every write; the table MOVES and the one script that applies it keep the state right.
CREATE TABLE job (
  n            INTEGER PRIMARY KEY,
  queue        TEXT NOT NULL,
  handler      TEXT NOT NULL,
  priority     INTEGER NOT NULL,
  state        TEXT NOT NULL,
  ready_at     REAL,
  due_at       REAL NOT NULL,
  entered_at   REAL NOT NULL,
  attempts     INTEGER NOT NULL DEFAULT 0,
  round_start  INTEGER NOT NULL DEFAULT 0,
  budget       INTEGER,
  max_attempts INTEGER,
  deferrals    INTEGER NOT NULL DEFAULT 0,
  token        INTEGER NOT NULL DEFAULT 0,
  worker       TEXT,
  claimed_at   REAL,
  asked_lease  REAL,
  lease        REAL,
  timeout      REAL,
  replay_mode  TEXT,
  asked_expiry REAL,
  expires_at   REAL,
  finished_at  REAL,
  cancelling   INTEGER NOT NULL DEFAULT 0,
  landed       TEXT,
  thread_gate  TEXT,
  parked_on    TEXT
) STRICT;

-- Claimable jobs by lane. What is not due or is parked stays out, so a claim never scans past it.
CREATE INDEX job_ready ON job (queue, handler, priority, ready_at, n) WHERE state = 'queued' AND ready_at IS NOT NULL;
CREATE INDEX job_due ON job (due_at) WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL;
CREATE INDEX job_parked ON job (parked_on, n) WHERE state = 'queued' AND parked_on IS NOT NULL;
CREATE INDEX job_thread ON job (thread_gate, n) WHERE thread_gate IS NOT NULL AND finished_at IS NULL;
CREATE INDEX job_running ON job (worker) WHERE state = 'running';
CREATE INDEX job_expiring ON job (expires_at) WHERE state = 'queued' AND expires_at IS NOT NULL;
CREATE INDEX job_ended ON job (queue, state, finished_at) WHERE finished_at IS NOT NULL;

-- What a job is, written once. AUTOINCREMENT never gives a number twice, so a late worker cannot hit another's row.
-- `details` holds what no statement decides by: session, requester, risk, labels, queue_reason.
CREATE TABLE body (
  n               INTEGER PRIMARY KEY AUTOINCREMENT,
  id              TEXT NOT NULL UNIQUE,
  payload         TEXT NOT NULL,
  idempotency_key TEXT,
  details         TEXT NOT NULL,
  created_at      REAL NOT NULL,
  first_seen_at   REAL,
  thread_key      TEXT,
  generation      INTEGER NOT NULL DEFAULT 0,
  workflow        TEXT,
  coalesced       TEXT
) STRICT;

-- How a job ended, for those that left something to tell.
CREATE TABLE ending (
  n               INTEGER PRIMARY KEY,
  result          TEXT,
  warning         TEXT,
  failure         TEXT,
  triage          TEXT,
  fingerprint     TEXT,
  superseded_by   TEXT,
  policy_snapshot TEXT,
  replays         INTEGER NOT NULL DEFAULT 0
) STRICT;

-- One line for each attempt that did not complete.
CREATE TABLE history (
  n     INTEGER NOT NULL,
  line  INTEGER NOT NULL,
  entry TEXT NOT NULL,
  PRIMARY KEY (n, line)
) STRICT, WITHOUT ROWID;

-- Keys outlive their jobs. `until` is set when the job is final; before that a key cannot expire.
CREATE TABLE idempotency (
  queue       TEXT NOT NULL,
  key         TEXT NOT NULL,
  id          TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  until       REAL,
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_id ON idempotency (id) WHERE until IS NULL;
CREATE INDEX idempotency_until ON idempotency (until) WHERE until IS NOT NULL;

-- Published rules: every process decides by these. NULL rules are the defaults of a queue nobody declared.
CREATE TABLE queue (
  name        TEXT PRIMARY KEY,
  rules       TEXT,
  priority    INTEGER,
  max_age     REAL,
  max_depth   INTEGER,
  declared_at REAL,
  paused      INTEGER NOT NULL DEFAULT 0,
  claims      INTEGER NOT NULL DEFAULT 0,
  claimed_at  REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE handler (
  queue       TEXT NOT NULL,
  name        TEXT NOT NULL,
  replay_mode TEXT NOT NULL,
  risk        TEXT,
  timeout     REAL,
  declared_at REAL NOT NULL,
  PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;

-- One heartbeat row for each worker. A job has lapsed when its worker's beat is older than the job's lease.
CREATE TABLE worker (
  id         TEXT PRIMARY KEY,
  host       TEXT NOT NULL,
  pid        INTEGER NOT NULL,
  boot       TEXT NOT NULL,
  queues     TEXT NOT NULL,
  declares   TEXT NOT NULL,
  started_at REAL NOT NULL,
  beat_at    REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Threads, limits, rates, breakers and admission gates are one structure. A thread's gate has a holder, or no row.
CREATE TABLE gate (
  key      TEXT PRIMARY KEY,
  kind     TEXT NOT NULL,
  holder   INTEGER,
  capacity INTEGER,
  used     INTEGER NOT NULL DEFAULT 0,
  opens_at REAL,
  detail   TEXT
) STRICT, WITHOUT ROWID;

-- What was committed, one row for each transaction, in commit order.
CREATE TABLE journal (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  at      REAL NOT NULL,
  entries TEXT NOT NULL
) STRICT;

CREATE TABLE counter (
  queue TEXT NOT NULL,
  name  TEXT NOT NULL,
  value INTEGER NOT NULL,
  PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;

-- Queue time is seconds since boot plus this offset.
CREATE TABLE clock (
  boot   TEXT PRIMARY KEY,
  offset REAL NOT NULL,
  since  REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE upkeep (
  name TEXT PRIMARY KEY,
  at   REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- A whole job for people to read. Column order is that of JobRow.
CREATE VIEW job_row AS
SELECT j.n, b.id, j.queue, j.handler, j.state, j.priority, b.payload, b.details, j.attempts, j.round_start, j.budget,
  j.max_attempts, q.rules, j.deferrals, j.token, b.generation, b.created_at, b.first_seen_at, j.entered_at, j.due_at,
  j.ready_at, j.claimed_at, j.finished_at, j.worker, b.idempotency_key, b.thread_key, j.thread_gate, b.coalesced, j.parked_on,
  b.workflow, j.expires_at, e.result, e.warning, e.failure, e.triage, e.fingerprint, e.superseded_by,
  e.policy_snapshot, coalesce(e.replays, 0) AS replays, h.risk AS handler_risk
FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN queue AS q ON q.name = j.queue LEFT JOIN ending AS e ON e.n = j.n
  LEFT JOIN handler AS h ON h.queue = j.queue AND h.name = j.handler;
