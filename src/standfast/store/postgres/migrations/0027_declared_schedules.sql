-- readable by: 12
-- Schedules that stand in an application's code (`sf.schedule`): the module that declares each, the queues of the process
-- that did, as a JSON array, and when a process that declares it was last heard of. `gone_at` is since when it is paused
-- because no code declares it any more.
CREATE TABLE declared_schedule (
  name        text PRIMARY KEY,
  module      text NOT NULL,
  queues      text NOT NULL,
  declared_at double precision NOT NULL,
  gone_at     double precision
);
