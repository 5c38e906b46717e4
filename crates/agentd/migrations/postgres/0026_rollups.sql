-- What happened, counted by the minute, later by the hour, and in the end by the day. `span` is how long a
-- row's time is, in seconds. What was counted stands in exactly one row.
CREATE TABLE counters (
    start BIGINT NOT NULL,
    span BIGINT NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    shard BIGINT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (start, span, name, label, shard)
);

-- How long things took: the buckets of a histogram that can be added to another. `instance` measured it, '' once
-- several were added.
CREATE TABLE latencies (
    start BIGINT NOT NULL,
    span BIGINT NOT NULL,
    series TEXT NOT NULL,
    label TEXT NOT NULL,
    instance TEXT NOT NULL,
    count BIGINT NOT NULL,
    errors BIGINT NOT NULL,
    buckets BYTEA NOT NULL,
    PRIMARY KEY (start, span, series, label, instance)
);

-- What calls of models used, by the quarter of an hour and, once their day is over, by the day. '' is unknown.
CREATE TABLE usage_rollups (
    start BIGINT NOT NULL,
    span BIGINT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    origin TEXT NOT NULL,
    key_id TEXT NOT NULL,
    shard BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    cost_micro_usd BIGINT NOT NULL,
    unpriced_calls BIGINT NOT NULL,
    PRIMARY KEY (start, span, provider, model, agent_id, project_id, origin, key_id, shard)
);

ALTER TABLE sessions ADD COLUMN key_id TEXT;
ALTER TABLE usage ADD COLUMN origin TEXT;
ALTER TABLE usage ADD COLUMN key_id TEXT;
CREATE INDEX usage_agent ON usage (agent_id, at) WHERE agent_id IS NOT NULL;

INSERT INTO usage_rollups
SELECT (at / 900000000) * 900000000, 900, provider, model, COALESCE(agent_id, ''), COALESCE(project_id, ''), '', '', 0,
       COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens),
       SUM(reasoning_tokens), SUM(COALESCE(cost_micro_usd, 0)),
       SUM(CASE WHEN cost_micro_usd IS NULL THEN 1 ELSE 0 END)
FROM usage
GROUP BY (at / 900000000) * 900000000, provider, model, COALESCE(agent_id, ''), COALESCE(project_id, '');
