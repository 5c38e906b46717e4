-- Where in a trace a turn was asked for, as a `traceparent` header; NULL where it began its own.
ALTER TABLE sessions ADD COLUMN traceparent TEXT;
-- When a step of a tool was: NULL for pieces of text.
ALTER TABLE session_events ADD COLUMN at BIGINT;

-- What a turn did besides what its log shows, for its trace. `id` is that of the span.
CREATE TABLE session_steps (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('recall', 'model_call')),
    started_at BIGINT,
    ended_at BIGINT,
    data TEXT NOT NULL,
    PRIMARY KEY (session_id, id)
);

-- Where in a trace the event happened that a hook hears.
ALTER TABLE hook_deliveries ADD COLUMN traceparent TEXT;
ALTER TABLE hook_executions ADD COLUMN traceparent TEXT;
