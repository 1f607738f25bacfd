-- What sessions are told of their jobs, written with the end it tells of. `body` holds what the job left behind: the job
-- itself may be pruned before anybody reads this. A library that does not know this table would end jobs in silence, and
-- one that does not know the others would run what nobody consented to, so it may not use the store any more.
CREATE TABLE message (
  id      text PRIMARY KEY,
  session text NOT NULL,
  kind    text NOT NULL,
  job     text NOT NULL,
  queue   text NOT NULL,
  handler text NOT NULL,
  at      double precision NOT NULL,
  read_at double precision,
  body    text NOT NULL
);
CREATE INDEX message_session ON message (session, at);
CREATE INDEX message_unread ON message (session, at) WHERE read_at IS NULL;
CREATE INDEX message_read ON message (read_at) WHERE read_at IS NOT NULL;

-- Whether a session must have consented before a handler is entered for it.
ALTER TABLE handler ADD COLUMN consent integer NOT NULL DEFAULT 0;

-- What a session was allowed or forbidden. `uses` is how many jobs it is good for, `used` how many have it.
CREATE TABLE consent (
  id         text PRIMARY KEY,
  session    text NOT NULL,
  queue      text NOT NULL,
  handler    text NOT NULL,
  mode       text NOT NULL,
  given_by   text NOT NULL,
  reason     text,
  granted_at double precision NOT NULL,
  expires_at double precision NOT NULL,
  uses       integer,
  used       integer NOT NULL DEFAULT 0,
  revoked_at double precision
);
CREATE INDEX consent_session ON consent (session);
CREATE INDEX consent_expiring ON consent (expires_at);

-- Which job took a use of which consent: its repeats need no other.
CREATE TABLE consent_use (
  consent text NOT NULL,
  job     text NOT NULL,
  at      double precision NOT NULL,
  PRIMARY KEY (consent, job)
);

-- The one answer that a job waits for which is held for its session's consent. `job` names the work, `first` says
-- whether nothing of it ran before.
CREATE TABLE consent_ask (
  n        bigint PRIMARY KEY,
  job      text NOT NULL,
  session  text NOT NULL,
  queue    text NOT NULL,
  handler  text NOT NULL,
  first    integer NOT NULL,
  asked_at double precision NOT NULL
);
CREATE INDEX consent_ask_session ON consent_ask (session);

-- How far somebody who follows the journal has come.
CREATE TABLE follower (
  name text PRIMARY KEY,
  seq  bigint NOT NULL
);

-- Letters of one cause that somebody is alerted of: how many there are, how many of them were told, and when the rest is.
CREATE TABLE alert (
  fingerprint text PRIMARY KEY,
  surfaces    text NOT NULL,
  sample      text NOT NULL,
  opened_at   double precision NOT NULL,
  tell_at     double precision NOT NULL,
  number      integer NOT NULL,
  told        integer NOT NULL DEFAULT 0
);
CREATE INDEX alert_due ON alert (tell_at);

-- The jobs of a session, as its name stands in their details. Jobs without one are not in it.
CREATE INDEX body_session ON body (substring(details FROM '"session":"((?:[^"\\]|\\.)*)"'), n) WHERE strpos(details, '"session":') > 0;
