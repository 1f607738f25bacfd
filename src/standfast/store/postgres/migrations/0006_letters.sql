-- readable by: 5
-- Letters by number: whoever lists, groups or exports them walks past nothing else.
CREATE INDEX job_letter ON job (n) WHERE state IN ('dead', 'held');
