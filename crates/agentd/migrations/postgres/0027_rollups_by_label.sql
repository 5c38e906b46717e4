ALTER TABLE counters RENAME TO counters_before;
ALTER TABLE latencies RENAME TO latencies_before;
DROP TABLE usage_rollups;

-- What happened over time, in rows that get coarser with age. `span` is how long the time of a row is, in seconds;
-- `at` is when it begins, and of a day its middle, so that it stays in its day when the time zone changes by some
-- hours. What was counted stands in exactly one row.

-- By the minute, or by the quarter of an hour where there are labels; by the day once that is over.
CREATE TABLE counters (
    name TEXT NOT NULL,
    at BIGINT NOT NULL,
    span BIGINT NOT NULL,
    label TEXT NOT NULL,
    shard BIGINT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (name, at, span, label, shard)
);
CREATE INDEX counters_age ON counters (span, at);

-- How long things took, by the minute, later the hour, in the end the day: the buckets of a histogram that can be
-- added to another. `batch` is what was stored at once, '' once several were added.
CREATE TABLE latencies (
    series TEXT NOT NULL,
    at BIGINT NOT NULL,
    span BIGINT NOT NULL,
    label TEXT NOT NULL,
    batch TEXT NOT NULL,
    count BIGINT NOT NULL,
    errors BIGINT NOT NULL,
    buckets BYTEA NOT NULL,
    PRIMARY KEY (series, at, span, label, batch)
);
CREATE INDEX latencies_age ON latencies (span, at);

-- What calls of models used, once by each thing that it is asked by: a row for each pair of them would be as many
-- rows as calls. By the quarter of an hour, by the day once that is over. The label '' is unknown.
CREATE TABLE usage_rollups (
    dimension TEXT NOT NULL CHECK (dimension IN ('model', 'agent', 'project', 'origin', 'key')),
    at BIGINT NOT NULL,
    span BIGINT NOT NULL,
    label TEXT NOT NULL,
    shard BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    cost_micro_usd BIGINT NOT NULL,
    unpriced_calls BIGINT NOT NULL,
    PRIMARY KEY (dimension, at, span, label, shard)
);
CREATE INDEX usage_rollups_age ON usage_rollups (span, at);

INSERT INTO counters (name, at, span, label, shard, count)
SELECT name, CASE WHEN span = 86400 THEN start + 43200000000 ELSE start END, span, label, shard, count
FROM counters_before;
DROP TABLE counters_before;

INSERT INTO latencies (series, at, span, label, batch, count, errors, buckets)
SELECT series, CASE WHEN span = 86400 THEN start + 43200000000 ELSE start END, span, label, instance, count, errors,
       buckets
FROM latencies_before;
DROP TABLE latencies_before;

INSERT INTO usage_rollups
SELECT 'model', (at / 900000000) * 900000000, 900, model, 0,
       COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens),
       SUM(reasoning_tokens), SUM(COALESCE(cost_micro_usd, 0)),
       SUM(CASE WHEN cost_micro_usd IS NULL THEN 1 ELSE 0 END)
FROM usage
GROUP BY (at / 900000000) * 900000000, model;

INSERT INTO usage_rollups
SELECT 'agent', (at / 900000000) * 900000000, 900, COALESCE(agent_id, ''), 0,
       COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens),
       SUM(reasoning_tokens), SUM(COALESCE(cost_micro_usd, 0)),
       SUM(CASE WHEN cost_micro_usd IS NULL THEN 1 ELSE 0 END)
FROM usage
GROUP BY (at / 900000000) * 900000000, COALESCE(agent_id, '');

INSERT INTO usage_rollups
SELECT 'project', (at / 900000000) * 900000000, 900, COALESCE(project_id, ''), 0,
       COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens),
       SUM(reasoning_tokens), SUM(COALESCE(cost_micro_usd, 0)),
       SUM(CASE WHEN cost_micro_usd IS NULL THEN 1 ELSE 0 END)
FROM usage
GROUP BY (at / 900000000) * 900000000, COALESCE(project_id, '');

INSERT INTO usage_rollups
SELECT 'origin', (at / 900000000) * 900000000, 900, COALESCE(origin, ''), 0,
       COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens),
       SUM(reasoning_tokens), SUM(COALESCE(cost_micro_usd, 0)),
       SUM(CASE WHEN cost_micro_usd IS NULL THEN 1 ELSE 0 END)
FROM usage
GROUP BY (at / 900000000) * 900000000, COALESCE(origin, '');

INSERT INTO usage_rollups
SELECT 'key', (at / 900000000) * 900000000, 900, COALESCE(key_id, ''), 0,
       COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens),
       SUM(reasoning_tokens), SUM(COALESCE(cost_micro_usd, 0)),
       SUM(CASE WHEN cost_micro_usd IS NULL THEN 1 ELSE 0 END)
FROM usage
GROUP BY (at / 900000000) * 900000000, COALESCE(key_id, '');

-- What happened lately is counted by its type.
CREATE INDEX outbox_activity ON outbox (event_type, created_at);
