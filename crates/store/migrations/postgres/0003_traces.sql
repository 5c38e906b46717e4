-- Where in a trace something was told or asked for, as a `traceparent` header.
ALTER TABLE outbox ADD COLUMN traceparent TEXT;
ALTER TABLE queue ADD COLUMN traceparent TEXT;

-- What was given up is counted by queue and by time.
CREATE INDEX queue_dead_letters ON queue (queue, updated_at) WHERE status = 'dead_letter';
