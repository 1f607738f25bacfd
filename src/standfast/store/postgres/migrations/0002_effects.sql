-- What a job's attempts did to the world, one row for each effect: begun before it, done after it with its receipt.
-- `verdict` is what a look at the world said last. A receipt that a fenced worker brought is kept as late evidence.
CREATE TABLE effect (
  n       bigint NOT NULL,
  name    text NOT NULL,
  state   text NOT NULL,
  receipt text,
  verdict text,
  token   integer NOT NULL,
  at      double precision NOT NULL,
  late    integer NOT NULL DEFAULT 0,
  PRIMARY KEY (n, name)
);

-- The gates a running job takes a place of, as a JSON list: limits, and the breaker it is the probe of.
ALTER TABLE job ADD COLUMN occupies text;
CREATE INDEX gate_opening ON gate (opens_at) WHERE opens_at IS NOT NULL;
