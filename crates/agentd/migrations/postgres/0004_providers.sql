-- Providers that were set up, and what their last calls said of them. Keys are in `secrets`.
CREATE TABLE providers (
    id TEXT PRIMARY KEY NOT NULL,
    base_url TEXT,
    default_model TEXT,
    status TEXT,
    status_message TEXT,
    checked_at BIGINT,
    updated_at BIGINT NOT NULL
);

-- One row a call of a model. cost_micro_usd is NULL where no price is known.
CREATE TABLE usage (
    id TEXT PRIMARY KEY NOT NULL,
    at BIGINT NOT NULL,
    day TEXT NOT NULL,
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
    source TEXT NOT NULL CHECK (source IN ('provider', 'estimated', 'missing')),
    cost_micro_usd BIGINT
);
CREATE INDEX usage_time ON usage (at);

-- Sums of `usage` a day and model, and under the day '' those of all time, so that a budget is
-- judged without reading calls. A sum is spread over shards, so that replicas rarely meet.
CREATE TABLE usage_totals (
    day TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    shard BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    cost_micro_usd BIGINT NOT NULL,
    unpriced_calls BIGINT NOT NULL,
    PRIMARY KEY (day, provider, model, shard)
);
