-- readable by: 12
-- A token is made for sessions (NULL: one of its own, named after it), and its maker may have shown a token too.
ALTER TABLE token ADD COLUMN sessions text;
ALTER TABLE token ADD COLUMN created_with text;

-- Settings that every process must read alike, whatever file lies in its directory: who is in which groups, and which
-- further names hide their values. `value` is JSON.
CREATE TABLE shared_setting (
  name         text PRIMARY KEY,
  value        text NOT NULL,
  published_by text NOT NULL,
  published_at double precision NOT NULL
);
