-- readable by: 11
-- Letters of an older library that spent their attempts are found by their cause too: what the last attempt failed of.
UPDATE ending SET failure = (failure::jsonb || jsonb_build_object('cause', (
  SELECT h.entry::json->>'reason_code' FROM history AS h
  WHERE h.n = ending.n AND h.entry::json->>'class' IS NOT NULL ORDER BY h.line DESC LIMIT 1)))::text
WHERE n IN (SELECT n FROM job WHERE state IN ('dead', 'held')) AND failure::json->>'reason_code' = 'max_attempts';

-- Every claim of a queue that calls somebody looks for the few destinations that asked to wait.
CREATE INDEX gate_hold ON gate (key) WHERE kind = 'hold';
