-- readable by: 12
-- What agents are told of a handler, so that a server without its code can offer it: the docstring, the JSON schema of its
-- input, and the names of the effects that it declares, as a JSON array.
CREATE TABLE handler_card (
  queue        text NOT NULL,
  name         text NOT NULL,
  description  text NOT NULL,
  input_schema text,
  effects      text NOT NULL,
  PRIMARY KEY (queue, name)
);
