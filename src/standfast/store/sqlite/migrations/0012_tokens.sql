-- readable by: 11
-- Bearer tokens: of the secret only its hash is kept. A revoked one stays, so that the audit can name it.
CREATE TABLE token (
  id         TEXT PRIMARY KEY,
  name       TEXT NOT NULL,
  hash       TEXT NOT NULL,
  person     TEXT NOT NULL,
  role       TEXT NOT NULL,
  groups     TEXT NOT NULL,
  queues     TEXT,
  created_by TEXT NOT NULL,
  created_at REAL NOT NULL,
  expires_at REAL,
  revoked_at REAL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX token_name ON token (name) WHERE revoked_at IS NULL;
