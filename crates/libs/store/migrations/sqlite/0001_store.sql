-- Tables of the store. The other dialect has the same tables, columns and unique indexes.
CREATE TABLE schema_migrations (
    version BIGINT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    applied_at BIGINT NOT NULL
);

-- Facts about this database as a whole.
CREATE TABLE store_info (
    name TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
);

-- PostgreSQL only: a topic's version is the sum of its rows. SQLite counts in memory.
CREATE TABLE topics (
    name TEXT NOT NULL,
    shard BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (name, shard)
);

-- Events, in the order (tx_id, seq). Here there is one writer, so seq alone orders them.
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    tx_id BIGINT NOT NULL DEFAULT 0,
    id TEXT NOT NULL UNIQUE,
    event_type TEXT NOT NULL,
    agent TEXT,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- Where in a trace something was told or asked for, as a `traceparent` header.
    traceparent TEXT
);
-- What is told of an agent goes with it.
CREATE INDEX outbox_agent ON outbox (agent) WHERE agent IS NOT NULL;
-- What happened lately is counted by its type.
CREATE INDEX outbox_activity ON outbox (event_type, created_at);

CREATE TABLE cursors (
    consumer TEXT PRIMARY KEY NOT NULL,
    tx_id BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- due_at: when the row may be claimed; of a leased row, when its lease ends.
-- fence: how often the row was claimed; never goes back, while attempt starts again with a retry.
CREATE TABLE queue (
    id TEXT PRIMARY KEY NOT NULL,
    queue TEXT NOT NULL,
    dedup_key TEXT,
    payload TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'leased', 'done', 'dead_letter')),
    run_at BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    owner TEXT,
    error TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    traceparent TEXT,
    UNIQUE (queue, dedup_key)
);
CREATE INDEX queue_due ON queue (queue, due_at) WHERE status IN ('pending', 'leased');
CREATE INDEX queue_ended ON queue (queue, status, updated_at) WHERE status IN ('done', 'dead_letter');
-- What was given up is counted by queue and by time.
CREATE INDEX queue_dead_letters ON queue (queue, updated_at) WHERE status = 'dead_letter';

CREATE TABLE idempotency (
    credential TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    request TEXT NOT NULL,
    body_hash BLOB NOT NULL,
    status BIGINT,
    body TEXT,
    resource_id TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (credential, idempotency_key)
);
CREATE INDEX idempotency_age ON idempotency (credential, created_at);
CREATE INDEX idempotency_expiry ON idempotency (created_at);

-- Which rows changed, for what is derived from them outside of the database. `row_number` is NULL when
-- every row may have changed. Here there is one writer, so seq alone orders them.
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    tx_id BIGINT NOT NULL DEFAULT 0,
    log TEXT NOT NULL,
    row_number BIGINT,
    created_at BIGINT NOT NULL
);
CREATE INDEX changes_order ON changes (log, tx_id, seq);
