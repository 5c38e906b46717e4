-- Hooks: what reacts to events. `scope` is `global` or `agent:<svc_name>`, `agent_id` that agent. A hook hears the
-- events behind `heard_after`, a place in the outbox of the database `heard_in`; in any other one all that are unread.
-- The value of `config.secret` lies in `secrets`.
CREATE TABLE hooks (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    event_type TEXT NOT NULL,
    hook_type TEXT NOT NULL CHECK (hook_type IN ('http', 'python', 'builtin')),
    enabled BIGINT NOT NULL,
    disabled_reason TEXT,
    scope TEXT NOT NULL,
    agent_id TEXT,
    config TEXT NOT NULL,
    has_secret BIGINT NOT NULL,
    source_code TEXT,
    filter_expr TEXT,
    priority BIGINT NOT NULL,
    tags TEXT NOT NULL,
    max_retries BIGINT NOT NULL,
    bundled_id TEXT,
    heard_after TEXT NOT NULL,
    heard_in TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX hooks_agent ON hooks (agent_id) WHERE agent_id IS NOT NULL;

-- Rises with every change of a hook, so that who keeps them in memory knows in a transaction whether they are current.
CREATE TABLE hook_versions (
    name TEXT PRIMARY KEY NOT NULL,
    version BIGINT NOT NULL
);

-- One event on its way to one receiver. due_at: when it may be claimed; while it is processed, when the lease ends;
-- NULL when nothing more is to be done. fence: how often it was claimed. attempt_count: attempts whose result is known.
CREATE TABLE hook_deliveries (
    id TEXT PRIMARY KEY NOT NULL,
    hook_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    payload TEXT NOT NULL,
    depth BIGINT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'processing', 'success', 'failed', 'dead_letter')),
    attempt_count BIGINT NOT NULL,
    due_at BIGINT,
    fence BIGINT NOT NULL,
    owner TEXT,
    response_status BIGINT,
    duration_ms BIGINT,
    error TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (hook_id, event_id)
);
CREATE INDEX hook_deliveries_due ON hook_deliveries (hook_id, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX hook_deliveries_recent ON hook_deliveries (hook_id, created_at, id);
CREATE INDEX hook_deliveries_status ON hook_deliveries (status, hook_id, created_at, id);

-- What a hook did about one event, other than by delivery. due_at, fence and attempt_count as above; a running one
-- that nobody holds yet is due. caused_id: what came of it, by which events that it led to are known.
CREATE TABLE hook_executions (
    id TEXT PRIMARY KEY NOT NULL,
    hook_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    payload TEXT NOT NULL,
    depth BIGINT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('success', 'error', 'running', 'timeout', 'skipped')),
    attempt_count BIGINT NOT NULL,
    due_at BIGINT,
    fence BIGINT NOT NULL,
    owner TEXT,
    output TEXT,
    error TEXT,
    caused_id TEXT,
    started_at BIGINT NOT NULL,
    completed_at BIGINT,
    duration_ms BIGINT,
    created_at BIGINT NOT NULL,
    UNIQUE (hook_id, event_id)
);
CREATE INDEX hook_executions_due ON hook_executions (hook_id, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX hook_executions_recent ON hook_executions (hook_id, created_at, id);
CREATE INDEX hook_executions_status ON hook_executions (status, hook_id, created_at, id);
CREATE INDEX hook_executions_caused ON hook_executions (caused_id) WHERE caused_id IS NOT NULL;

-- Receivers that failed last. open_until: nothing is sent before; then one delivery shows whether it is back.
CREATE TABLE hook_circuits (
    hook_id TEXT PRIMARY KEY NOT NULL,
    failures BIGINT NOT NULL,
    openings BIGINT NOT NULL,
    open_until BIGINT
);

-- What deliveries and executions came to, a row for each quarter of an hour.
CREATE TABLE hook_figures (
    hook_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    period_start BIGINT NOT NULL,
    succeeded BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    PRIMARY KEY (hook_id, event_type, period_start)
);
CREATE INDEX hook_figures_age ON hook_figures (period_start);
