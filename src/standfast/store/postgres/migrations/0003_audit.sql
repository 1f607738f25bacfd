-- Decisions that act, one link for each transaction that made some; each link's hash covers the link before it. `at` is
-- wall time, and like `entries` the very text that was hashed. Nothing is ever changed or deleted here. A library that
-- does not know this table would decide without a trace, so it may not use the store any more.
CREATE TABLE audit (
  seq      bigint PRIMARY KEY,
  at       text NOT NULL,
  entries  text NOT NULL,
  previous text NOT NULL,
  hash     text NOT NULL
);

-- Whose chain it is and how far it has come: one row, or none before the first decision. Its lock makes one chain of
-- what many hosts decide.
CREATE TABLE chain (
  only_one integer PRIMARY KEY CHECK (only_one = 1),
  store    text NOT NULL,
  seq      bigint NOT NULL,
  hash     text NOT NULL
) WITH (fillfactor = 50);
