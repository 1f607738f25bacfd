-- readable by: 11
-- How far an attempt says it is; one row for each job that said so, of its newest attempt that did.
CREATE TABLE job_progress (
  n        bigint PRIMARY KEY,
  token    integer NOT NULL,
  attempt  integer NOT NULL,
  fraction double precision NOT NULL,
  note     text,
  at       double precision NOT NULL
) WITH (fillfactor = 70);

-- Every look at an effect: what it said, and what it found. `effect` has the last word on each.
CREATE TABLE look (
  n       bigint NOT NULL,
  line    integer NOT NULL,
  name    text NOT NULL,
  verdict text NOT NULL,
  receipt text,
  at      double precision NOT NULL,
  attempt integer,
  PRIMARY KEY (n, line)
);
