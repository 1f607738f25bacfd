-- readable by: 12
-- What a queue's rules in force are made of: what the code declared, and by rule what a settings file says over it. A
-- library that knows neither publishes `rules` alone, and is understood all the same.
ALTER TABLE queue ADD COLUMN declared text;
ALTER TABLE queue ADD COLUMN overlay text;
