-- readable by: 21
-- What agents are told of a handler, so that a server without its code can offer it: the docstring, the JSON schema of its
-- input, and the names of the effects that it declares, as a JSON array.
CREATE TABLE handler_card (
  queue        TEXT NOT NULL,
  name         TEXT NOT NULL,
  description  TEXT NOT NULL,
  input_schema TEXT,
  effects      TEXT NOT NULL,
  PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;
