-- A session that waits for an approval is held by nobody: what it needs to go on stands here.
ALTER TABLE sessions ADD COLUMN waiting_since BIGINT;
CREATE INDEX sessions_waiting ON sessions (waiting_since) WHERE waiting_since IS NOT NULL;
CREATE TABLE parked_turns (
    session_id TEXT PRIMARY KEY NOT NULL REFERENCES sessions (id),
    state TEXT NOT NULL
);

-- What an owner is asked before it happens. `input` is the whole of it; what runs is held against
-- its hash.
CREATE TABLE approvals (
    id TEXT PRIMARY KEY NOT NULL,
    kind TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    session_id TEXT,
    conversation_id TEXT,
    call_id TEXT,
    tool TEXT NOT NULL,
    input TEXT NOT NULL,
    input_sha256 TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'cancelled')),
    reason TEXT,
    requested_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT
);
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE status = 'pending';
CREATE INDEX approvals_session ON approvals (session_id);
CREATE INDEX approvals_agent ON approvals (agent_id);
CREATE INDEX approvals_recent ON approvals (requested_at, id);

-- The rounds of a reply that used tools, as JSON.
ALTER TABLE messages ADD COLUMN rounds TEXT;

-- What stands for the messages up to a position when a model is asked. The messages stay.
ALTER TABLE conversations ADD COLUMN summary TEXT;
ALTER TABLE conversations ADD COLUMN summary_through BIGINT NOT NULL DEFAULT 0;
