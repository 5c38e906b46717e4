-- Messages to people and machines outside. Each has one item in the queue `notify`, which says when it is tried
-- and by whom; the row says what it is and what became of it.
CREATE TABLE notifications (
    id TEXT PRIMARY KEY NOT NULL,
    idempotency_key TEXT UNIQUE,
    item_id TEXT NOT NULL,
    platform TEXT NOT NULL,
    channel TEXT NOT NULL,
    agent TEXT,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    format TEXT NOT NULL CHECK (format IN ('markdown', 'text', 'html', 'json')),
    status TEXT NOT NULL CHECK (status IN ('pending', 'sent', 'dead_letter')),
    attempt_count BIGINT NOT NULL,
    next_attempt_at BIGINT,
    reference TEXT,
    error TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX notifications_recent ON notifications (created_at, id);
CREATE INDEX notifications_status ON notifications (status, created_at, id);
CREATE INDEX notifications_ended ON notifications (updated_at) WHERE status <> 'pending';
