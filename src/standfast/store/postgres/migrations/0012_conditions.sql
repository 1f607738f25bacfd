-- readable by: 11
-- Alerts: conditions, from the look that first saw one to the look that saw it gone for long enough. Of one kind, in one
-- queue and about one subject, one is open at a time. `told` counts what surfaces heard: its beginning, then its end.
CREATE TABLE condition (
  id          text PRIMARY KEY,
  kind        text NOT NULL,
  queue       text NOT NULL,
  subject     text NOT NULL,
  message     text NOT NULL,
  value       double precision NOT NULL,
  threshold   double precision NOT NULL,
  started_at  double precision NOT NULL,
  clear_since double precision,
  ended_at    double precision,
  told        integer NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX condition_open ON condition (kind, queue, subject) WHERE ended_at IS NULL;
CREATE INDEX condition_untold ON condition (started_at) WHERE told < 2;
CREATE INDEX condition_ended ON condition (ended_at) WHERE ended_at IS NOT NULL;

-- When each thing last hurt, and the job that carries the signal.
CREATE TABLE pain (
  kind    text NOT NULL,
  queue   text NOT NULL,
  subject text NOT NULL,
  at      double precision NOT NULL,
  job     text NOT NULL,
  PRIMARY KEY (kind, queue, subject)
);

-- The surfaces that did not take what was last sent to them: since when, and when that was.
CREATE TABLE sink (
  name          text PRIMARY KEY,
  failing_since double precision NOT NULL,
  failed_at     double precision NOT NULL,
  why           text NOT NULL
);

-- How long attempts waited and took, as each worker counted them, all its life; those of workers that are gone are added
-- up under no owner. A worker that was given up and came back counts anew, in another part.
CREATE TABLE timing (
  owner  text NOT NULL,
  part   integer NOT NULL,
  queue  text NOT NULL,
  counts text NOT NULL,
  PRIMARY KEY (owner, part, queue)
);

-- Queues that were deep are conditions now.
DELETE FROM upkeep WHERE name LIKE 'depth %';
