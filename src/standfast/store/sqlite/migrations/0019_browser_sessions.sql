-- readable by: 13
-- Browsers that signed in with a token: of the cookie only its hash is kept. `audience` names the address that the cookie
-- was given for; `ends_at` is the latest end, `expires_at` the end if the browser stays idle.
CREATE TABLE browser_session (
  hash       TEXT PRIMARY KEY,
  token      TEXT NOT NULL,
  audience   TEXT NOT NULL,
  created_at REAL NOT NULL,
  ends_at    REAL NOT NULL,
  expires_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX browser_session_token ON browser_session (token, created_at);
CREATE INDEX browser_session_expiry ON browser_session (expires_at);
