-- Tables of the store. SQLite and PostgreSQL have the same tables, columns and unique indexes.
-- Times are in microseconds since the Unix epoch, booleans are 0 or 1, and JSON is stored as TEXT.
CREATE TABLE schema_migrations (
    version BIGINT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    applied_at BIGINT NOT NULL
);

-- Properties of the database as a whole, such as its id.
CREATE TABLE store_info (
    name TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
);

-- Used on PostgreSQL only, where the version of a topic is the sum over its shards. SQLite keeps versions in memory.
CREATE TABLE topics (
    name TEXT NOT NULL,
    shard BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (name, shard)
);

-- Events, ordered by (tx_id, seq). SQLite has a single writer, so tx_id is always 0 and seq alone defines the order.
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    tx_id BIGINT NOT NULL DEFAULT 0,
    id TEXT NOT NULL UNIQUE,
    event_type TEXT NOT NULL,
    -- Agent whose hooks receive the event in addition to global hooks; NULL for events of no agent.
    agent TEXT,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- Trace context in which the event was emitted, as a W3C `traceparent` header; NULL if there was none.
    traceparent TEXT
);
-- Used to delete the events of an agent.
CREATE INDEX outbox_agent ON outbox (agent) WHERE agent IS NOT NULL;
-- Used to count recent events by type.
CREATE INDEX outbox_activity ON outbox (event_type, created_at);

-- Position of each consumer of the outbox.
CREATE TABLE cursors (
    consumer TEXT PRIMARY KEY NOT NULL,
    tx_id BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Leased work queues.
CREATE TABLE queue (
    id TEXT PRIMARY KEY NOT NULL,
    queue TEXT NOT NULL,
    dedup_key TEXT,
    payload TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'leased', 'done', 'dead_letter')),
    run_at BIGINT NOT NULL,
    -- Time from which the item may be claimed; for a leased item, the expiry of the lease.
    due_at BIGINT NOT NULL,
    -- Number of attempts since the last manual retry.
    attempt BIGINT NOT NULL,
    -- Number of claims. It never decreases, while a manual retry resets attempt.
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
-- Used to count dead-lettered items by queue and time.
CREATE INDEX queue_dead_letters ON queue (queue, updated_at) WHERE status = 'dead_letter';

-- Responses to requests with an Idempotency-Key, stored in the transaction of the change.
CREATE TABLE idempotency (
    credential TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    request TEXT NOT NULL,
    -- HMAC-SHA256 of the path, query and body; keyed, because a body may contain a password.
    body_hash BLOB NOT NULL,
    -- NULL if the response was not stored, because it contained a secret or started a stream.
    status BIGINT,
    body TEXT,
    resource_id TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (credential, idempotency_key)
);
CREATE INDEX idempotency_age ON idempotency (credential, created_at);
CREATE INDEX idempotency_expiry ON idempotency (created_at);

-- Change logs of rows, for indexes that are derived from them outside the database. SQLite has a single writer, so
-- tx_id is always 0 and seq alone defines the order.
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    tx_id BIGINT NOT NULL DEFAULT 0,
    log TEXT NOT NULL,
    -- NULL if any row may have changed.
    row_number BIGINT,
    created_at BIGINT NOT NULL
);
CREATE INDEX changes_order ON changes (log, tx_id, seq);
