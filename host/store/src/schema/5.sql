-- For the events of one call.
CREATE INDEX events_call ON events (call, seq) WHERE call IS NOT NULL;
