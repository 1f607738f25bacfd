-- readable by: 10
-- Bearer tokens: of the secret only its hash is kept. A revoked one stays, so that the audit can name it.
CREATE TABLE token (
  id         text PRIMARY KEY,
  name       text NOT NULL,
  hash       text NOT NULL,
  person     text NOT NULL,
  role       text NOT NULL,
  groups     text NOT NULL,
  queues     text,
  created_by text NOT NULL,
  created_at double precision NOT NULL,
  expires_at double precision,
  revoked_at double precision
);
CREATE UNIQUE INDEX token_name ON token (name) WHERE revoked_at IS NULL;
