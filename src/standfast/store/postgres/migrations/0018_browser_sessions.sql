-- readable by: 12
-- Browsers that signed in with a token: of the cookie only its hash is kept. `audience` names the address that the cookie
-- was given for; `ends_at` is the latest end, `expires_at` the end if the browser stays idle.
CREATE TABLE browser_session (
  hash       text PRIMARY KEY,
  token      text NOT NULL,
  audience   text NOT NULL,
  created_at double precision NOT NULL,
  ends_at    double precision NOT NULL,
  expires_at double precision NOT NULL
);
CREATE INDEX browser_session_token ON browser_session (token, created_at);
CREATE INDEX browser_session_expiry ON browser_session (expires_at);
