-- readable by: 12
-- Letters that were replayed, resolved or discarded, have ended and are no longer kept: an import does not bring them back.
CREATE TABLE former_letter (
  id TEXT PRIMARY KEY,
  at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX former_letter_at ON former_letter (at);
