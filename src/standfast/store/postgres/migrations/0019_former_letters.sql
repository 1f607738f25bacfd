-- readable by: 11
-- Letters that were replayed, resolved or discarded, have ended and are no longer kept: an import does not bring them back.
CREATE TABLE former_letter (
  id text PRIMARY KEY,
  at double precision NOT NULL
);
CREATE INDEX former_letter_at ON former_letter (at);
