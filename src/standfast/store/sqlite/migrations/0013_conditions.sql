-- readable by: 12
-- Alerts: conditions, from the look that first saw one to the look that saw it gone for long enough. Of one kind, in one
-- queue and about one subject, one is open at a time. `told` counts what surfaces heard: its beginning, then its end.
CREATE TABLE condition (
  id          TEXT PRIMARY KEY,
  kind        TEXT NOT NULL,
  queue       TEXT NOT NULL,
  subject     TEXT NOT NULL,
  message     TEXT NOT NULL,
  value       REAL NOT NULL,
  threshold   REAL NOT NULL,
  started_at  REAL NOT NULL,
  clear_since REAL,
  ended_at    REAL,
  told        INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX condition_open ON condition (kind, queue, subject) WHERE ended_at IS NULL;
CREATE INDEX condition_untold ON condition (started_at) WHERE told < 2;
CREATE INDEX condition_ended ON condition (ended_at) WHERE ended_at IS NOT NULL;

-- When each thing last hurt, and the job that carries the signal.
CREATE TABLE pain (
  kind    TEXT NOT NULL,
  queue   TEXT NOT NULL,
  subject TEXT NOT NULL,
  at      REAL NOT NULL,
  job     TEXT NOT NULL,
  PRIMARY KEY (kind, queue, subject)
) STRICT, WITHOUT ROWID;

-- The surfaces that did not take what was last sent to them: since when, and when that was.
CREATE TABLE sink (
  name          TEXT PRIMARY KEY,
  failing_since REAL NOT NULL,
  failed_at     REAL NOT NULL,
  why           TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How long attempts waited and took, as each worker counted them, all its life; those of workers that are gone are added
-- up under no owner. A worker that was given up and came back counts anew, in another part.
CREATE TABLE timing (
  owner  TEXT NOT NULL,
  part   INTEGER NOT NULL,
  queue  TEXT NOT NULL,
  counts TEXT NOT NULL,
  PRIMARY KEY (owner, part, queue)
) STRICT, WITHOUT ROWID;

-- Queues that were deep are conditions now.
DELETE FROM upkeep WHERE name LIKE 'depth %';
