-- Messages whose episodes somebody deleted: what is made from their conversations later leaves them out.
CREATE TABLE memory_forgotten (
    origin TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX memory_forgotten_agent ON memory_forgotten (agent_id);
