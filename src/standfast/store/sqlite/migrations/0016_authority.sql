-- readable by: 13
-- A token is made for sessions (NULL: one of its own, named after it), and its maker may have shown a token too.
ALTER TABLE token ADD COLUMN sessions TEXT;
ALTER TABLE token ADD COLUMN created_with TEXT;

-- Settings that every process must read alike, whatever file lies in its directory: who is in which groups, and which
-- further names hide their values. `value` is JSON.
CREATE TABLE shared_setting (
  name         TEXT PRIMARY KEY,
  value        TEXT NOT NULL,
  published_by TEXT NOT NULL,
  published_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
