-- What somebody is told of, and where each alert stands. What belongs to a firing is NULL while there is none.
CREATE TABLE alerts (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    expression TEXT NOT NULL,
    threshold REAL NOT NULL,
    period_minutes BIGINT NOT NULL,
    for_minutes BIGINT NOT NULL,
    notify_every_minutes BIGINT NOT NULL,
    notify_resolved BIGINT NOT NULL,
    severity TEXT NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
    delivery_type TEXT CHECK (delivery_type IN ('webhook', 'email', 'channel')),
    -- Credentials in it lie in the vault.
    delivery_url TEXT,
    enabled BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('ok', 'firing', 'acknowledged', 'snoozed', 'resolved')),
    -- Since when the condition holds that has not fired yet.
    pending_since BIGINT,
    firing_id TEXT,
    firing_since BIGINT,
    acknowledged_at BIGINT,
    snoozed_at BIGINT,
    snoozed_until BIGINT,
    noticed_at BIGINT,
    -- Of the present firing.
    notices BIGINT NOT NULL,
    -- When it was resolved by hand, until its condition was false once.
    held_since BIGINT,
    last_triggered BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE alert_firings (
    id TEXT PRIMARY KEY NOT NULL,
    alert_id TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    acknowledged_at BIGINT,
    peak_value REAL
);
CREATE INDEX alert_firings_alert ON alert_firings (alert_id, started_at, id);
CREATE INDEX alert_firings_ended ON alert_firings (ended_at) WHERE ended_at IS NOT NULL;

-- Who was told of a firing, the newest few of them. `error` says why a notice could not even be handed over.
CREATE TABLE alert_notices (
    firing_id TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    at BIGINT NOT NULL,
    target TEXT NOT NULL,
    error TEXT,
    PRIMARY KEY (firing_id, ordinal)
);

-- At most one row: which daemon evaluates, until when, and when somebody last did.
CREATE TABLE alert_evaluator (
    id BIGINT PRIMARY KEY NOT NULL CHECK (id = 1),
    owner TEXT NOT NULL,
    lease_until BIGINT NOT NULL,
    evaluated_at BIGINT NOT NULL
);

-- What was last evaluated by: figures as a JSON object, for each period that alerts have.
CREATE TABLE alert_figures (
    period_minutes BIGINT PRIMARY KEY NOT NULL,
    figures TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Those that come with the daemon, switched off. They go to the address in the profile.
INSERT INTO alerts (id, name, expression, threshold, period_minutes, for_minutes, notify_every_minutes,
                    notify_resolved, severity, delivery_type, delivery_url, enabled, state, notices, created_at, updated_at)
SELECT id, name, expression, threshold, period_minutes, for_minutes, 60, 0, severity, 'email', '', 0, 'ok', 0, CAST(strftime('%s', 'now') AS BIGINT) * 1000000, CAST(strftime('%s', 'now') AS BIGINT) * 1000000
FROM (
    SELECT 'alert_01k00000000000000000000001' AS id, 'Messages or deliveries were given up' AS name,
           'dead_letters > threshold' AS expression, 0.0 AS threshold, 15 AS period_minutes, 0 AS for_minutes,
           'warning' AS severity
    UNION ALL SELECT 'alert_01k00000000000000000000002', 'The disk is nearly full', 'disk_percent > threshold', 90.0, 5, 5,
           'critical'
    UNION ALL SELECT 'alert_01k00000000000000000000003', 'Many requests fail',
           'error_rate > threshold && requests_per_minute >= 1', 0.05, 5, 5, 'warning'
    UNION ALL SELECT 'alert_01k00000000000000000000004', 'A job keeps failing', 'consecutive_failed_runs >= threshold', 3.0,
           1440, 0, 'warning'
    UNION ALL SELECT 'alert_01k00000000000000000000005', 'The token budget is nearly used up', 'budget_percent >= threshold',
           80.0, 5, 0, 'warning'
    UNION ALL SELECT 'alert_01k00000000000000000000006', 'No call of a model succeeds',
           'failed_model_calls >= model_calls && model_calls > threshold', 0.0, 15, 0, 'critical'
) AS bundled;
