-- Every version of an agent's instructions; the highest is the one in force. Empty: none.
CREATE TABLE agent_versions (
    agent_id TEXT NOT NULL REFERENCES agents (id),
    version BIGINT NOT NULL,
    instructions TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('created', 'owner', 'evolution', 'restore')),
    reason TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, version)
) WITHOUT ROWID;
INSERT INTO agent_versions (agent_id, version, instructions, source, created_at)
SELECT id, 1, COALESCE(json_extract(profile, '$.instructions'), ''), 'created', created_at
FROM agents WHERE deleted_at IS NULL;

-- How much an agent has talked since it was last asked what it learned.
CREATE TABLE evolution (
    agent_id TEXT PRIMARY KEY NOT NULL,
    turns BIGINT NOT NULL,
    considered_at BIGINT
);
-- One proposal at a time waits for the owner of an agent.
CREATE UNIQUE INDEX approvals_evolution ON approvals (agent_id) WHERE kind = 'evolution' AND status = 'pending';
