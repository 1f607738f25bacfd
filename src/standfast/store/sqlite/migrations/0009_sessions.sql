-- What sessions are told of their jobs, written with the end it tells of. `body` holds what the job left behind: the job
-- itself may be pruned before anybody reads this. A library that does not know this table would end jobs in silence, and
-- one that does not know the others would run what nobody consented to, so it may not use the store any more.
CREATE TABLE message (
  id      TEXT PRIMARY KEY,
  session TEXT NOT NULL,
  kind    TEXT NOT NULL,
  job     TEXT NOT NULL,
  queue   TEXT NOT NULL,
  handler TEXT NOT NULL,
  at      REAL NOT NULL,
  read_at REAL,
  body    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX message_session ON message (session, at);
CREATE INDEX message_unread ON message (session, at) WHERE read_at IS NULL;
CREATE INDEX message_read ON message (read_at) WHERE read_at IS NOT NULL;

-- Whether a session must have consented before a handler is entered for it.
ALTER TABLE handler ADD COLUMN consent INTEGER NOT NULL DEFAULT 0;

-- What a session was allowed or forbidden. `uses` is how many jobs it is good for, `used` how many have it.
CREATE TABLE consent (
  id         TEXT PRIMARY KEY,
  session    TEXT NOT NULL,
  queue      TEXT NOT NULL,
  handler    TEXT NOT NULL,
  mode       TEXT NOT NULL,
  given_by   TEXT NOT NULL,
  reason     TEXT,
  granted_at REAL NOT NULL,
  expires_at REAL NOT NULL,
  uses       INTEGER,
  used       INTEGER NOT NULL DEFAULT 0,
  revoked_at REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX consent_session ON consent (session);
CREATE INDEX consent_expiring ON consent (expires_at);

-- Which job took a use of which consent: its repeats need no other.
CREATE TABLE consent_use (
  consent TEXT NOT NULL,
  job     TEXT NOT NULL,
  at      REAL NOT NULL,
  PRIMARY KEY (consent, job)
) STRICT, WITHOUT ROWID;

-- The one answer that a job waits for which is held for its session's consent. `job` names the work, `first` says
-- whether nothing of it ran before.
CREATE TABLE consent_ask (
  n        INTEGER PRIMARY KEY,
  job      TEXT NOT NULL,
  session  TEXT NOT NULL,
  queue    TEXT NOT NULL,
  handler  TEXT NOT NULL,
  first    INTEGER NOT NULL,
  asked_at REAL NOT NULL
) STRICT;
CREATE INDEX consent_ask_session ON consent_ask (session);

-- How far somebody who follows the journal has come.
CREATE TABLE follower (
  name TEXT PRIMARY KEY,
  seq  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Letters of one cause that somebody is alerted of: how many there are, how many of them were told, and when the rest is.
CREATE TABLE alert (
  fingerprint TEXT PRIMARY KEY,
  surfaces    TEXT NOT NULL,
  sample      TEXT NOT NULL,
  opened_at   REAL NOT NULL,
  tell_at     REAL NOT NULL,
  number      INTEGER NOT NULL,
  told        INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX alert_due ON alert (tell_at);

-- The jobs of a session. Jobs without one are not in it.
CREATE INDEX body_session ON body (details->>'session', n) WHERE instr(details, '"session":') > 0;
