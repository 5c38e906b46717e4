-- Agents. A deleted one stays until the purge is through; its name is free at once.
-- leaves_folder: deleted, and its folder may still stand under its name.
CREATE TABLE agents (
    id TEXT PRIMARY KEY NOT NULL,
    svc_name TEXT NOT NULL,
    user_name TEXT NOT NULL,
    archetypes TEXT NOT NULL,
    custom_archetype TEXT,
    evolution_choice TEXT NOT NULL CHECK (evolution_choice IN ('off', 'check', 'auto')),
    profile TEXT NOT NULL,
    answers TEXT NOT NULL,
    leaves_folder BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE UNIQUE INDEX agents_name ON agents (svc_name) WHERE deleted_at IS NULL;
CREATE INDEX agents_leaving ON agents (svc_name) WHERE leaves_folder = 1;
