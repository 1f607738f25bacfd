-- readable by: 1
-- Whether a store is being promoted, and where it has gone: one row, or none. `until` is when a promotion that is not
-- heard of any more counts as interrupted, `no_claims_until` how long nothing is started. A library that does not look
-- here starts jobs all the same, which only makes the promotion wait; from a store that has moved, triggers keep it away.
CREATE TABLE moving (
  source          TEXT NOT NULL,
  run             TEXT NOT NULL,
  state           TEXT NOT NULL,
  home            TEXT NOT NULL,
  until           REAL NOT NULL,
  no_claims_until REAL NOT NULL
) STRICT;

-- What changed since it was copied; triggers write it while a store is being promoted.
CREATE TABLE changed_job (
  n INTEGER PRIMARY KEY
) STRICT;
CREATE TABLE changed_key (
  queue TEXT NOT NULL,
  key   TEXT NOT NULL,
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
