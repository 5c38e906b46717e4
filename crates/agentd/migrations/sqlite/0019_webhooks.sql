-- Projects. A deleted one stays, out of sight, until its name is off all that named it.
CREATE TABLE projects (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    status TEXT NOT NULL CHECK (status IN ('active', 'paused', 'completed', 'archived')),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX projects_recent ON projects (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX projects_deleted ON projects (deleted_at) WHERE deleted_at IS NOT NULL;

ALTER TABLE conversations ADD COLUMN project_id TEXT;
CREATE INDEX conversations_project ON conversations (project_id, updated_at, id) WHERE project_id IS NOT NULL;

-- What a turn used is counted for the project that its conversation had when it began.
ALTER TABLE sessions ADD COLUMN project_id TEXT;
ALTER TABLE usage ADD COLUMN project_id TEXT;
CREATE INDEX usage_project ON usage (project_id) WHERE project_id IS NOT NULL;

-- Doors for signed requests from outside. Their secrets are in `secrets`. A deleted one stays, out of sight, until
-- its deliveries are purged.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    agent_id TEXT,
    prompt_template TEXT,
    tools TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    disabled_reason TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX webhooks_agent ON webhooks (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX webhooks_deleted ON webhooks (deleted_at) WHERE deleted_at IS NOT NULL;

-- Requests that were accepted, and what became of each. agent_id: whose turn it started.
CREATE TABLE webhook_deliveries (
    id TEXT PRIMARY KEY NOT NULL,
    webhook_id TEXT NOT NULL,
    message_id TEXT,
    replay_of TEXT,
    event_id TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('received', 'pending', 'running', 'success', 'failed', 'cancelled', 'interrupted')),
    body_bytes BIGINT NOT NULL,
    agent_id TEXT,
    session_id TEXT,
    output TEXT,
    error TEXT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    completed_at BIGINT
);
CREATE INDEX webhook_deliveries_recent ON webhook_deliveries (webhook_id, created_at, id, body_bytes);
CREATE INDEX webhook_deliveries_status ON webhook_deliveries (webhook_id, status, created_at, id);
CREATE INDEX webhook_deliveries_age ON webhook_deliveries (created_at);
CREATE INDEX webhook_deliveries_agent ON webhook_deliveries (agent_id) WHERE agent_id IS NOT NULL;

-- What came, beside its delivery: a change of a delivery does not write two megabytes again.
CREATE TABLE webhook_requests (
    delivery_id TEXT PRIMARY KEY NOT NULL REFERENCES webhook_deliveries (id),
    headers TEXT NOT NULL,
    body BLOB NOT NULL
);

-- The senders' own ids of what came in the last day: the same one again is the same delivery.
CREATE TABLE webhook_messages (
    webhook_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (webhook_id, message_id)
);
CREATE INDEX webhook_messages_age ON webhook_messages (received_at);
