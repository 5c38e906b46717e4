CREATE TABLE providers (
    id TEXT NOT NULL PRIMARY KEY,
    base_url TEXT,
    default_model TEXT,
    updated_at BIGINT NOT NULL
);

-- One row a model call; what was paid is fixed when it was made.
CREATE TABLE usage (
    id TEXT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    agent_id TEXT,
    conversation_id TEXT,
    session_id TEXT,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    source TEXT NOT NULL,
    cost_micro_usd BIGINT
);
CREATE INDEX usage_at ON usage (at);

-- Running totals. `shard` spreads a day's row over several where many write at once.
CREATE TABLE usage_totals (
    day TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    shard BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_micro_usd BIGINT NOT NULL,
    PRIMARY KEY (day, provider, model, shard)
);
