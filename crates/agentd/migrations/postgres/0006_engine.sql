-- Sessions: one running turn of an agent each. The owner renews its lease; who finds a running
-- session without a valid lease may end it.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    conversation_id TEXT,
    message_id TEXT,
    transcript TEXT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt_tokens_estimate BIGINT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled', 'interrupted')),
    error_code TEXT,
    owner TEXT NOT NULL,
    lease_until BIGINT NOT NULL,
    cancel_requested BIGINT NOT NULL DEFAULT 0,
    started_at BIGINT NOT NULL,
    completed_at BIGINT
);
-- One turn at a time in a conversation.
CREATE UNIQUE INDEX sessions_turn ON sessions (conversation_id) WHERE status = 'running';
CREATE INDEX sessions_lease ON sessions (lease_until) WHERE status = 'running';
CREATE INDEX sessions_ended ON sessions (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX sessions_agent ON sessions (agent_id);

-- What a session said, in order, kept for a day after its end. Number 0, the start, is not stored:
-- the session's row says it all.
CREATE TABLE session_events (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
);
