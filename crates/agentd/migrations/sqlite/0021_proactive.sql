-- Turns that agents began by themselves. Both constraints are what bounds them: so many of an agent and day, and one
-- of each cause, ever. `agent_id` is NULL once the agent was deleted, where the row stays as the memory of its cause.
CREATE TABLE proactive_turns (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT,
    -- In the profile's time zone, 2026-01-31, and the how manieth turn of it.
    day TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    cause TEXT NOT NULL CHECK (cause IN ('failed_run', 'suggestion')),
    -- The run, or the days and the time of a suggestion.
    cause_id TEXT NOT NULL,
    job_id TEXT,
    subject TEXT NOT NULL,
    reason TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'success', 'failed', 'cancelled', 'interrupted')),
    session_id TEXT,
    output TEXT,
    error TEXT,
    started_at BIGINT NOT NULL,
    completed_at BIGINT,
    UNIQUE (agent_id, day, ordinal),
    UNIQUE (cause, cause_id)
);
CREATE INDEX proactive_turns_recent ON proactive_turns (started_at, id);
