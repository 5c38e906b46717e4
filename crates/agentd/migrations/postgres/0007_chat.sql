-- Conversations. A deleted one stays hidden until its messages are purged.
-- revision rises with every change of the messages, and gives a message its position.
CREATE TABLE conversations (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    title TEXT NOT NULL,
    title_source TEXT NOT NULL CHECK (title_source IN ('default', 'rule', 'owner')),
    mode TEXT NOT NULL CHECK (mode IN ('chat', 'agent', 'plan')),
    execution_mode TEXT NOT NULL CHECK (execution_mode IN ('autonomous', 'approval_required')),
    message_count BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX conversations_recent ON conversations (updated_at, id) WHERE deleted_at IS NULL;
CREATE INDEX conversations_agent ON conversations (agent_id, updated_at, id);
CREATE INDEX conversations_deleted ON conversations (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE messages (
    id TEXT PRIMARY KEY NOT NULL,
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    position BIGINT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
    content TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'interrupted', 'cancelled', 'failed')),
    session_id TEXT,
    created_at BIGINT NOT NULL,
    UNIQUE (conversation_id, position)
);
