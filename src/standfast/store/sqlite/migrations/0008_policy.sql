-- The policy in force: one row, or none where nobody ever wrote one. `text` is the last good one as it was written and
-- `rules` what it means; `problem` says what is wrong with the one somebody configured since. A library that does not know
-- this table would replay what the policy denies, so it may not use the store any more.
CREATE TABLE policy (
  only_one     INTEGER PRIMARY KEY CHECK (only_one = 1),
  snapshot     TEXT,
  source       TEXT,
  text         TEXT,
  rules        TEXT,
  published_by TEXT,
  published_at REAL,
  problem      TEXT,
  problem_at   REAL
) STRICT;

-- When a letter is replayed by itself; under which policy that was refused, so that another one is asked again; and when
-- a replay was refused last, whoever asked for it.
ALTER TABLE ending ADD COLUMN replay_at REAL;
ALTER TABLE ending ADD COLUMN refused_under TEXT;
ALTER TABLE ending ADD COLUMN refused_at REAL;
CREATE INDEX ending_replay ON ending (replay_at) WHERE replay_at IS NOT NULL;
CREATE INDEX ending_refused_under ON ending (refused_under) WHERE refused_under IS NOT NULL;
CREATE INDEX ending_refused_at ON ending (refused_at) WHERE refused_at IS NOT NULL;
