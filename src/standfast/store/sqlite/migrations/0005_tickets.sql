-- readable by: 4
-- Jobs that a gate has let through and nobody has claimed yet hold a place; a sweep takes it back from who holds it long.
CREATE INDEX job_ticket ON job (n) WHERE state = 'queued' AND occupies IS NOT NULL;
CREATE INDEX gate_breaker ON gate (key) WHERE kind = 'breaker';
CREATE INDEX gate_regulating ON gate (key) WHERE kind <> 'thread';
