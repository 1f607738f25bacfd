-- The hot row: narrow, rewritten by every claim and settle. `ready_at` is set exactly while the job may be claimed,
-- `finished_at` exactly while it is completed, cancelled, dead or held. A page keeps room for new versions of its rows,
-- and is vacuumed long before a fifth of a big table has died: what is dead must not be walked past by every claim.
CREATE TABLE job (
  n            bigint PRIMARY KEY,
  queue        text NOT NULL,
  handler      text NOT NULL,
  priority     integer NOT NULL,
  state        text NOT NULL,
  ready_at     double precision,
  due_at       double precision NOT NULL,
  entered_at   double precision NOT NULL,
  attempts     integer NOT NULL DEFAULT 0,
  round_start  integer NOT NULL DEFAULT 0,
  budget       integer,
  max_attempts integer,
  deferrals    integer NOT NULL DEFAULT 0,
  token        integer NOT NULL DEFAULT 0,
  worker       text,
  claimed_at   double precision,
  asked_lease  double precision,
  lease        double precision,
  timeout      double precision,
  replay_mode  text,
  asked_expiry double precision,
  expires_at   double precision,
  finished_at  double precision,
  cancelling   integer NOT NULL DEFAULT 0,
  landed       text,
  thread_gate  text,
  parked_on    text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

-- Claimable jobs by lane. What is not due or is parked stays out, so a claim never scans past it.
CREATE INDEX job_ready ON job (queue, handler, priority, ready_at, n) WHERE state = 'queued' AND ready_at IS NOT NULL;
CREATE INDEX job_due ON job (due_at) WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL;
CREATE INDEX job_parked ON job (parked_on, n) WHERE state = 'queued' AND parked_on IS NOT NULL;
CREATE INDEX job_thread ON job (thread_gate, n) WHERE thread_gate IS NOT NULL AND finished_at IS NULL;
CREATE INDEX job_running ON job (worker) WHERE state = 'running';
CREATE INDEX job_expiring ON job (expires_at) WHERE state = 'queued' AND expires_at IS NOT NULL;
CREATE INDEX job_ended ON job (queue, state, finished_at) WHERE finished_at IS NOT NULL;

-- What a job is, written once. Its number never comes twice, so a late worker cannot hit another's row.
-- `details` holds what no statement decides by: session, requester, risk, labels, queue_reason.
CREATE SEQUENCE job_number;
CREATE TABLE body (
  n               bigint PRIMARY KEY,
  id              text NOT NULL UNIQUE,
  payload         text NOT NULL,
  idempotency_key text,
  details         text NOT NULL,
  created_at      double precision NOT NULL,
  first_seen_at   double precision,
  thread_key      text,
  generation      integer NOT NULL DEFAULT 0,
  workflow        text,
  coalesced       text
);

-- How a job ended, for those that left something to tell.
CREATE TABLE ending (
  n               bigint PRIMARY KEY,
  result          text,
  warning         text,
  failure         text,
  triage          text,
  fingerprint     text,
  superseded_by   text,
  policy_snapshot text,
  replays         integer NOT NULL DEFAULT 0
);

-- One line for each attempt that did not complete.
CREATE TABLE history (
  n     bigint NOT NULL,
  line  integer NOT NULL,
  entry text NOT NULL,
  PRIMARY KEY (n, line)
);

-- Keys outlive their jobs. `until` is set when the job is final; before that a key cannot expire.
CREATE TABLE idempotency (
  queue       text NOT NULL,
  key         text NOT NULL,
  id          text NOT NULL,
  fingerprint text NOT NULL,
  until       double precision,
  PRIMARY KEY (queue, key)
);
CREATE INDEX idempotency_id ON idempotency (id) WHERE until IS NULL;
CREATE INDEX idempotency_until ON idempotency (until) WHERE until IS NOT NULL;

-- What became of ids whose callers could not be told at once: brought by a spool, or folded into another job.
CREATE TABLE alias (
  id    text PRIMARY KEY,
  owner text NOT NULL,
  at    double precision NOT NULL
);
CREATE INDEX alias_at ON alias (at);

-- Published rules: every process decides by these. NULL rules are the defaults of a queue nobody declared.
CREATE TABLE queue (
  name        text PRIMARY KEY,
  rules       text,
  priority    integer,
  max_age     double precision,
  max_depth   integer,
  declared_at double precision,
  paused      integer NOT NULL DEFAULT 0
);

-- How often each worker claimed from each queue: a row of its own, so that workers do not wait for each other.
CREATE TABLE tally (
  queue      text NOT NULL,
  worker     text NOT NULL,
  claims     bigint NOT NULL,
  claimed_at double precision NOT NULL,
  PRIMARY KEY (queue, worker)
) WITH (fillfactor = 50);

CREATE TABLE handler (
  queue       text NOT NULL,
  name        text NOT NULL,
  replay_mode text NOT NULL,
  risk        text,
  timeout     double precision,
  declared_at double precision NOT NULL,
  PRIMARY KEY (queue, name)
);

-- One heartbeat row for each worker. A job has lapsed when its worker's beat is older than the job's lease.
CREATE TABLE worker (
  id         text PRIMARY KEY,
  host       text NOT NULL,
  pid        integer NOT NULL,
  boot       text NOT NULL,
  queues     text NOT NULL,
  declares   text NOT NULL,
  started_at double precision NOT NULL,
  beat_at    double precision NOT NULL
) WITH (fillfactor = 50);

-- Threads, limits, rates, breakers and admission gates are one structure. A thread's gate has a holder, or no row.
CREATE TABLE gate (
  key      text PRIMARY KEY,
  kind     text NOT NULL,
  holder   bigint,
  capacity integer,
  used     integer NOT NULL DEFAULT 0,
  opens_at double precision,
  detail   text
);

-- What was committed, one row for each transaction. Numbers given while writing would not be in commit order, so a
-- transaction leaves its row unnumbered, and whoever reads the journal numbers what it can see, one reader at a time.
CREATE TABLE told (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      double precision NOT NULL,
  entries text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE journal (
  seq     bigint PRIMARY KEY,
  at      double precision NOT NULL,
  entries text NOT NULL
);

-- Counters, and what was added since they were last put together: a row that all must update would make them queue up.
CREATE TABLE counter (
  queue text NOT NULL,
  name  text NOT NULL,
  value bigint NOT NULL,
  PRIMARY KEY (queue, name)
);
CREATE TABLE counted (
  queue text NOT NULL,
  name  text NOT NULL,
  value bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE upkeep (
  name text PRIMARY KEY,
  at   double precision NOT NULL
);

-- A whole job for people to read. Column order is that of JobRow.
CREATE VIEW job_row AS
SELECT j.n, b.id, j.queue, j.handler, j.state, j.priority, b.payload, b.details, j.attempts, j.round_start, j.budget,
  j.max_attempts, q.rules, j.deferrals, j.token, b.generation, b.created_at, b.first_seen_at, j.entered_at, j.due_at,
  j.ready_at, j.claimed_at, j.finished_at, j.worker, b.idempotency_key, b.thread_key, j.thread_gate, b.coalesced, j.parked_on,
  b.workflow, j.expires_at, e.result, e.warning, e.failure, e.triage, e.fingerprint, e.superseded_by,
  e.policy_snapshot, coalesce(e.replays, 0) AS replays, h.risk AS handler_risk
FROM job AS j JOIN body AS b ON b.n = j.n LEFT JOIN queue AS q ON q.name = j.queue LEFT JOIN ending AS e ON e.n = j.n
  LEFT JOIN handler AS h ON h.queue = j.queue AND h.name = j.handler;
