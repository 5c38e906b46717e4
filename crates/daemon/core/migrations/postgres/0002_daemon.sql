-- Settings by section, as JSON. A section without a row has its default values.
CREATE TABLE settings (
    section TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Encrypted secrets.
CREATE TABLE secrets (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Version byte, nonce and ciphertext. Encrypted with the key file and bound to scope and name.
    sealed BYTEA NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (scope, name)
);

-- One-time claims of the first account and the first API key. The primary key decides races between concurrent
-- requests. A claim outlives its account or key, so that revoking the last key does not reopen bootstrap.
CREATE TABLE bootstrap_claims (
    claim TEXT PRIMARY KEY NOT NULL CHECK (claim IN ('first_user', 'first_key')),
    claimed_by TEXT NOT NULL,
    claimed_at BIGINT NOT NULL
);

CREATE TABLE users (
    id TEXT PRIMARY KEY NOT NULL,
    username TEXT NOT NULL UNIQUE,
    -- argon2id hash in PHC string format.
    password_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- API keys. Revoked keys keep their row.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    scope TEXT NOT NULL CHECK (scope IN ('full', 'read')),
    -- SHA-256 of the key, which itself is not stored.
    key_hash BYTEA NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    last_used BIGINT,
    revoked_at BIGINT
);

CREATE TABLE user_sessions (
    id TEXT PRIMARY KEY NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    token_hash BYTEA NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- last_used_at, user_agent and address are shown in the list of sessions; NULL if unknown.
    last_used_at BIGINT,
    user_agent TEXT,
    address TEXT,
    -- SHA-256 of the page secret, which a page session requires in addition to its cookie; NULL for other sessions.
    page_secret_hash BYTEA,
    -- Time until which the password of a page session counts as recently confirmed; NULL if it was never confirmed.
    reauthenticated_until BIGINT
);
CREATE INDEX user_sessions_of_user ON user_sessions (user_id, created_at);
CREATE INDEX user_sessions_expiry ON user_sessions (expires_at);
CREATE UNIQUE INDEX user_sessions_of_page ON user_sessions (page_secret_hash);

-- Tickets, each valid for one connection to any replica. The credential is the one that requested the ticket.
CREATE TABLE auth_tickets (
    id TEXT PRIMARY KEY NOT NULL,
    ticket_hash BYTEA NOT NULL UNIQUE,
    credential_kind TEXT NOT NULL CHECK (credential_kind IN ('api_key', 'session', 'local')),
    credential_id TEXT NOT NULL,
    user_id TEXT,
    scope TEXT NOT NULL CHECK (scope IN ('full', 'read')),
    expires_at BIGINT NOT NULL
);
CREATE INDEX auth_tickets_of_credential ON auth_tickets (credential_id);
CREATE INDEX auth_tickets_expiry ON auth_tickets (expires_at);

-- Failed logins, and attempts that are still being checked.
CREATE TABLE login_failures (
    id TEXT PRIMARY KEY NOT NULL,
    -- SHA-256, because users sometimes type a password into the username field.
    username_hash BYTEA NOT NULL,
    network TEXT NOT NULL,
    failed_at BIGINT NOT NULL
);
CREATE INDEX login_failures_of_user ON login_failures (username_hash, network, failed_at);
CREATE INDEX login_failures_age ON login_failures (failed_at);

-- Configured model providers and the result of their last call. API keys are stored in `secrets`.
CREATE TABLE providers (
    id TEXT PRIMARY KEY NOT NULL,
    base_url TEXT,
    default_model TEXT,
    status TEXT,
    status_message TEXT,
    checked_at BIGINT,
    updated_at BIGINT NOT NULL
);

-- One row per model call.
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
    -- Millionths of a US dollar; NULL if the price is unknown.
    cost_micro_usd BIGINT,
    project_id TEXT,
    origin TEXT,
    key_id TEXT
);
CREATE INDEX usage_time ON usage (at);
CREATE INDEX usage_project ON usage (project_id) WHERE project_id IS NOT NULL;
CREATE INDEX usage_agent ON usage (agent_id, at) WHERE agent_id IS NOT NULL;

-- Sums of `usage` per day and model, and all-time sums with the day ''. They allow checking a budget without reading
-- calls. Each sum is spread over shards to reduce contention between replicas.
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

-- Agents. A deleted agent keeps its row until it is purged; its name becomes available immediately.
CREATE TABLE agents (
    id TEXT PRIMARY KEY NOT NULL,
    svc_name TEXT NOT NULL,
    user_name TEXT NOT NULL,
    archetypes TEXT NOT NULL,
    custom_archetype TEXT,
    evolution_choice TEXT NOT NULL CHECK (evolution_choice IN ('off', 'check', 'auto')),
    profile TEXT NOT NULL,
    answers TEXT NOT NULL,
    -- 1 if the agent is deleted and its folder may still exist under its name.
    leaves_folder BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE UNIQUE INDEX agents_name ON agents (svc_name) WHERE deleted_at IS NULL;
CREATE INDEX agents_leaving ON agents (svc_name) WHERE leaves_folder = 1;

-- Sessions, each of which is one turn of an agent. The owner renews the lease of a running session. Any process that
-- finds a running session with an expired lease may end it.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    conversation_id TEXT,
    message_id TEXT,
    transcript TEXT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt_tokens_estimate BIGINT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled', 'interrupted')),
    error_code TEXT,
    owner TEXT NOT NULL,
    lease_until BIGINT NOT NULL,
    cancel_requested BIGINT NOT NULL DEFAULT 0,
    started_at BIGINT NOT NULL,
    completed_at BIGINT,
    -- Start of the current wait for an approval; NULL if it is not waiting. A waiting session has no owner; its state
    -- is in parked_turns.
    waiting_since BIGINT,
    -- Source of the request for the turn, such as chat, scheduler or webhook.
    origin TEXT NOT NULL DEFAULT 'chat',
    job_id TEXT,
    run_id TEXT,
    -- Project to which the usage is charged, determined when the turn starts.
    project_id TEXT,
    key_id TEXT,
    -- Trace context in which the turn was requested, as a W3C `traceparent` header; NULL if the turn started its own
    -- trace.
    traceparent TEXT,
    -- Total time spent waiting for approvals, excluding the current wait. It does not count towards the time limit of a
    -- run.
    waited_micros BIGINT NOT NULL DEFAULT 0
);
-- At most one running turn per conversation.
CREATE UNIQUE INDEX sessions_turn ON sessions (conversation_id) WHERE status = 'running';
CREATE INDEX sessions_lease ON sessions (lease_until) WHERE status = 'running';
CREATE INDEX sessions_ended ON sessions (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX sessions_agent ON sessions (agent_id);
CREATE INDEX sessions_waiting ON sessions (waiting_since) WHERE waiting_since IS NOT NULL;

-- Events of a session in order, retained for one day after its end. Event 0, the start, is not stored, because the row
-- of the session contains its data.
CREATE TABLE session_events (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    -- Time of a tool step; NULL for all other events.
    at BIGINT,
    PRIMARY KEY (session_id, seq)
);

-- Conversations. A deleted conversation stays hidden until its messages are purged.
CREATE TABLE conversations (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    title TEXT NOT NULL,
    title_source TEXT NOT NULL CHECK (title_source IN ('default', 'rule', 'owner')),
    mode TEXT NOT NULL CHECK (mode IN ('chat', 'agent', 'plan')),
    execution_mode TEXT NOT NULL CHECK (execution_mode IN ('autonomous', 'approval_required')),
    message_count BIGINT NOT NULL,
    -- Increases with every change of the messages. Positions of messages are derived from it.
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    -- Replaces the messages up to position summary_through in prompts. The messages themselves are retained.
    summary TEXT,
    summary_through BIGINT NOT NULL DEFAULT 0,
    project_id TEXT,
    -- Device that started the conversation; a device can continue only its own conversations.
    device_id TEXT,
    -- JSON array of the sources of untrusted text that the summary may contain; NULL if there are none.
    summary_sources TEXT
);
CREATE INDEX conversations_recent ON conversations (updated_at, id) WHERE deleted_at IS NULL;
CREATE INDEX conversations_agent ON conversations (agent_id, updated_at, id);
CREATE INDEX conversations_deleted ON conversations (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX conversations_project ON conversations (project_id, updated_at, id) WHERE project_id IS NOT NULL;

CREATE TABLE messages (
    id TEXT PRIMARY KEY NOT NULL,
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    position BIGINT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
    content TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'interrupted', 'cancelled', 'failed')),
    session_id TEXT,
    created_at BIGINT NOT NULL,
    -- Model rounds of a reply that used tools, as a JSON array; NULL if it used none.
    rounds TEXT,
    -- 1 if an unknown sender wrote the message, or if it is a reply to one.
    is_untrusted BIGINT NOT NULL DEFAULT 0,
    -- Replies only: the agent and model that wrote the reply, and the usage of the turn.
    agent_id TEXT,
    provider TEXT,
    model TEXT,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cost_micro_usd BIGINT,
    duration_ms BIGINT,
    UNIQUE (conversation_id, position)
);
-- Used by suggestions and the activity heatmap, which evaluate when the owner writes.
CREATE INDEX messages_written ON messages (created_at) WHERE role = 'user';

-- State of turns that wait for an approval: everything needed to resume them, as JSON.
CREATE TABLE parked_turns (
    session_id TEXT PRIMARY KEY NOT NULL REFERENCES sessions (id),
    state TEXT NOT NULL
);

-- Requests for approval of an action by the owner.
CREATE TABLE approvals (
    id TEXT PRIMARY KEY NOT NULL,
    kind TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    session_id TEXT,
    conversation_id TEXT,
    call_id TEXT,
    tool TEXT NOT NULL,
    -- Complete input of the action.
    input TEXT NOT NULL,
    -- SHA-256 of the tool name and the input, verified before the action runs.
    input_sha256 TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'cancelled')),
    reason TEXT,
    requested_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT,
    -- JSON array of the sources of untrusted text that made the approval necessary; NULL if there are none.
    untrusted_sources TEXT
);
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE status = 'pending';
CREATE INDEX approvals_session ON approvals (session_id);
CREATE INDEX approvals_agent ON approvals (agent_id);
CREATE INDEX approvals_recent ON approvals (requested_at, id);
-- At most one pending proposal per agent.
CREATE UNIQUE INDEX approvals_evolution ON approvals (agent_id) WHERE kind = 'evolution' AND status = 'pending';

-- Ranges of truncated messages that are still to be purged: positions after after_position, up to and including
-- through_position. The messages are hidden as soon as the row is committed.
CREATE TABLE message_cuts (
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    after_position BIGINT NOT NULL,
    through_position BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, after_position, through_position)
);

-- Outgoing messages to users and other systems. Each message has one item in the queue `notify`, which schedules its
-- attempts; the row stores the content and the outcome.
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
    updated_at BIGINT NOT NULL,
    -- Messages to chat platforms only: the address in the chat and the buttons, as JSON.
    details TEXT
);
CREATE INDEX notifications_recent ON notifications (created_at, id);
CREATE INDEX notifications_status ON notifications (status, created_at, id);
CREATE INDEX notifications_ended ON notifications (updated_at) WHERE status <> 'pending';
-- Platforms report failed deliveries later, by their own message ids.
CREATE INDEX notifications_reference ON notifications (platform, reference) WHERE reference IS NOT NULL;

-- Disabled built-in tools. A tool without a row is enabled.
CREATE TABLE builtin_tools_off (
    name TEXT PRIMARY KEY NOT NULL
);

-- Tools created by the owner.
CREATE TABLE custom_tools (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    input_schema TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('python', 'http', 'shell')),
    source_code TEXT,
    -- Contains only the names of secret headers; their values are stored in `secrets`.
    request TEXT,
    timeout_seconds BIGINT NOT NULL,
    enabled BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Versions of an agent's instructions. The highest version is active; an empty text means no instructions.
CREATE TABLE agent_versions (
    agent_id TEXT NOT NULL REFERENCES agents (id),
    version BIGINT NOT NULL,
    instructions TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('created', 'owner', 'evolution', 'restore')),
    reason TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, version)
);

-- Progress of the evolution reviews of an agent.
CREATE TABLE evolution (
    agent_id TEXT PRIMARY KEY NOT NULL,
    -- Number of turns since the last review.
    turns BIGINT NOT NULL,
    -- Time up to which messages were reviewed.
    considered_at BIGINT
);

-- Devices of the owner that are paired with the daemon.
CREATE TABLE devices (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    slug TEXT NOT NULL UNIQUE,
    platform TEXT NOT NULL,
    metadata TEXT NOT NULL,
    token_hash BYTEA NOT NULL UNIQUE,
    -- Active connection, and the daemon instance that holds it; both are NULL while the device is disconnected.
    connection_id TEXT,
    connected_to TEXT,
    created_at BIGINT NOT NULL,
    last_seen_at BIGINT
);

-- Valid pairing codes. A used or revoked code is deleted.
CREATE TABLE device_pairing_codes (
    id TEXT PRIMARY KEY NOT NULL,
    -- SHA-256 of the id and the code.
    code_hash BYTEA NOT NULL,
    wrong_tries BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX device_pairing_codes_expiry ON device_pairing_codes (expires_at);

-- Failed pairing attempts by source network.
CREATE TABLE device_pairing_failures (
    id TEXT PRIMARY KEY NOT NULL,
    network TEXT NOT NULL,
    failed_at BIGINT NOT NULL
);
CREATE INDEX device_pairing_failures_of_network ON device_pairing_failures (network, failed_at);
CREATE INDEX device_pairing_failures_age ON device_pairing_failures (failed_at);

-- Tool servers registered by the owner.
CREATE TABLE tool_servers (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL UNIQUE,
    -- Transport as JSON, without the values of variables and headers, which are stored in `secrets`.
    reach TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    trusted BIGINT NOT NULL,
    timeout_seconds BIGINT NOT NULL,
    catalog_entry TEXT,
    -- Increases when the transport or one of these values changes.
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Last tool listing of each server, so that its tools are known without a connection.
CREATE TABLE tool_server_listings (
    server_id TEXT PRIMARY KEY NOT NULL REFERENCES tool_servers (id),
    listing TEXT NOT NULL,
    listed_at BIGINT NOT NULL
);

-- Memory of agents.
CREATE TABLE episodes (
    -- Order of creation; identifies the episode in the search indexes.
    number BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent_id TEXT,
    source TEXT NOT NULL,
    -- Identifier of what the episode was derived from. It is unique, so that nothing is stored twice.
    origin TEXT UNIQUE,
    content TEXT NOT NULL,
    summary TEXT,
    topics TEXT NOT NULL,
    -- importance and valence are in millionths, so that sums are exact.
    importance BIGINT NOT NULL,
    valence BIGINT NOT NULL,
    access_count BIGINT NOT NULL,
    -- Number of times the episode was evaluated after a recall, and number of times the reply used it.
    judged_count BIGINT NOT NULL DEFAULT 0,
    used_count BIGINT NOT NULL DEFAULT 0,
    -- Newer episode that contradicts this one.
    superseded_by TEXT,
    -- Model that created the vectors; NULL if there are none.
    embedding_model TEXT,
    -- Version of the rules by which entities were extracted; 0 if they were not extracted yet.
    extraction BIGINT NOT NULL,
    occurred_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- Time at which the episode was last stored, recalled or changed.
    touched_at BIGINT NOT NULL,
    -- 1 if the episode was derived from untrusted text, as are all episodes stored by hooks.
    is_untrusted BIGINT NOT NULL DEFAULT 0,
    -- Hash of the words of the content, used to find repeated episodes; NULL if the content has no words.
    wording BIGINT
);
CREATE INDEX episodes_agent ON episodes (agent_id, number);
CREATE INDEX episodes_superseded ON episodes (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX episodes_touched ON episodes (touched_at, number);
CREATE INDEX episodes_own_importance ON episodes (importance, number) WHERE origin IS NOT NULL;
CREATE INDEX episodes_embedding ON episodes (embedding_model, number);
CREATE INDEX episodes_extraction ON episodes (extraction, number);
CREATE INDEX episodes_wording ON episodes (agent_id, wording, number) WHERE wording IS NOT NULL;

-- Embeddings as little-endian 32-bit floats. A long text has one row per part.
CREATE TABLE episode_vectors (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    part BIGINT NOT NULL,
    vector BYTEA NOT NULL,
    PRIMARY KEY (episode, part)
);

CREATE TABLE entities (
    number BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    entity_type TEXT NOT NULL,
    entity_key TEXT NOT NULL,
    name TEXT NOT NULL,
    mentions BIGINT NOT NULL,
    UNIQUE (entity_type, entity_key)
);
CREATE INDEX entities_mentions ON entities (mentions, number);

CREATE TABLE episode_entities (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    entity BIGINT NOT NULL REFERENCES entities (number),
    mentions BIGINT NOT NULL,
    PRIMARY KEY (episode, entity)
);
CREATE INDEX episode_entities_entity ON episode_entities (entity, episode);

-- Sums of episode_relations over all episodes. Weights are in thousandths.
CREATE TABLE entity_relations (
    source BIGINT NOT NULL REFERENCES entities (number),
    target BIGINT NOT NULL REFERENCES entities (number),
    relation_type TEXT NOT NULL,
    weight BIGINT NOT NULL,
    episodes BIGINT NOT NULL,
    PRIMARY KEY (source, target, relation_type)
);
CREATE INDEX entity_relations_weight ON entity_relations (weight);
CREATE INDEX entity_relations_target ON entity_relations (target);

CREATE TABLE episode_relations (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    source BIGINT NOT NULL,
    target BIGINT NOT NULL,
    relation_type TEXT NOT NULL,
    weight BIGINT NOT NULL,
    PRIMARY KEY (episode, source, target, relation_type)
);

-- Counters of the memory statistics, updated in the transaction that changes what they count.
CREATE TABLE memory_counts (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
);

-- Simple facts stated by episodes, used to detect contradictions between two values of the same attribute.
CREATE TABLE episode_facts (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    -- Index of the fact in the episode.
    place BIGINT NOT NULL,
    agent_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    attribute TEXT NOT NULL,
    value TEXT NOT NULL,
    polarity BIGINT NOT NULL,
    PRIMARY KEY (episode, place)
);
CREATE INDEX episode_facts_of ON episode_facts (agent_id, subject, attribute);

-- Progress of memory in a conversation.
CREATE TABLE memory_talks (
    conversation_id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    -- Position of the last processed message.
    through BIGINT NOT NULL,
    -- Revision of the conversation when that message was processed.
    revision BIGINT NOT NULL,
    -- Revision of the conversation when it was summarized.
    insight_revision BIGINT NOT NULL
);
CREATE INDEX memory_talks_agent ON memory_talks (agent_id);

-- Progress of long-running memory jobs. Their leases are stored in `leases`.
CREATE TABLE memory_jobs (
    name TEXT PRIMARY KEY NOT NULL,
    -- Position from which the next run continues.
    place BIGINT NOT NULL,
    done BIGINT NOT NULL,
    total BIGINT NOT NULL,
    processed BIGINT NOT NULL,
    created BIGINT NOT NULL,
    merged BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    started_at BIGINT,
    -- NULL while a run is unfinished.
    finished_at BIGINT,
    updated_at BIGINT NOT NULL
);

-- Scheduled jobs of agents.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    goal TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    schedule TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'paused', 'completed', 'failed')),
    delivery TEXT,
    condition TEXT,
    retry TEXT NOT NULL,
    overlap TEXT NOT NULL CHECK (overlap IN ('skip', 'buffer_one', 'allow', 'cancel_other')),
    misfire TEXT NOT NULL CHECK (misfire IN ('run_once', 'skip', 'run_all')),
    execution_mode TEXT NOT NULL CHECK (execution_mode IN ('autonomous', 'approval_required')),
    time_limit_seconds BIGINT NOT NULL,
    model TEXT,
    -- Last planned slot, or time of creation, resumption or rescheduling. No earlier slot is planned, and intervals
    -- start here.
    counted_from BIGINT NOT NULL,
    -- Set only for active jobs, so that the index jobs_due contains only rows that the scheduler has to check.
    next_run_at BIGINT,
    last_run_at BIGINT,
    run_count BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    -- Project to which a run is charged: the project of the job when the attempt starts.
    project_id TEXT,
    -- 1 if an agent created the job. Jobs created by the owner do not count towards the limit of the agent.
    made_by_agent BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX jobs_due ON jobs (next_run_at, id) WHERE next_run_at IS NOT NULL;
CREATE INDEX jobs_recent ON jobs (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX jobs_status ON jobs (status, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX jobs_agent ON jobs (agent_id, id);
CREATE INDEX jobs_deleted ON jobs (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX jobs_project ON jobs (project_id, created_at, id) WHERE project_id IS NOT NULL;

-- Runs of jobs: one row per slot of the schedule, and one per manual or chained start.
CREATE TABLE job_runs (
    id TEXT PRIMARY KEY NOT NULL,
    job_id TEXT NOT NULL REFERENCES jobs (id),
    agent_id TEXT NOT NULL,
    -- Slot of the schedule; NULL for manual and chained starts.
    scheduled_for BIGINT,
    cause TEXT NOT NULL CHECK (cause IN ('schedule', 'manual', 'chain')),
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'success', 'failed', 'cancelled', 'skipped', 'timeout')),
    may_overlap BIGINT NOT NULL,
    -- Time from which a pending run may be claimed; for a running run without a session, the expiry of the claim. NULL
    -- if the run has a session, which has its own lease, or has ended.
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    owner TEXT,
    session_id TEXT,
    -- Deadline of the current attempt.
    deadline_at BIGINT,
    -- Reason why the run is being stopped: cancel, timeout, replaced or paused.
    stop_reason TEXT,
    output TEXT,
    error TEXT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    completed_at BIGINT,
    UNIQUE (job_id, scheduled_for)
);
CREATE INDEX job_runs_due ON job_runs (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX job_runs_open ON job_runs (job_id, id) WHERE status IN ('pending', 'running');
CREATE INDEX job_runs_deadline ON job_runs (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX job_runs_session ON job_runs (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX job_runs_job ON job_runs (job_id, created_at, id);
CREATE INDEX job_runs_recent ON job_runs (created_at, status);
CREATE INDEX job_runs_ended ON job_runs (completed_at) WHERE completed_at IS NOT NULL;

-- Chains of dependent jobs.
CREATE TABLE job_chains (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    -- JSON array of {from, to, type}.
    edges TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX job_chains_recent ON job_chains (created_at, id);

CREATE TABLE chain_jobs (
    chain_id TEXT NOT NULL REFERENCES job_chains (id),
    job_id TEXT NOT NULL REFERENCES jobs (id),
    position BIGINT NOT NULL,
    is_root BIGINT NOT NULL,
    PRIMARY KEY (chain_id, job_id)
);
CREATE INDEX chain_jobs_job ON chain_jobs (job_id);

CREATE TABLE chain_runs (
    id TEXT PRIMARY KEY NOT NULL,
    chain_id TEXT NOT NULL REFERENCES job_chains (id),
    cause TEXT NOT NULL CHECK (cause IN ('manual', 'job')),
    status TEXT NOT NULL CHECK (status IN ('running', 'success', 'failed')),
    started_at BIGINT NOT NULL,
    completed_at BIGINT
);
CREATE INDEX chain_runs_chain ON chain_runs (chain_id, started_at, id);
CREATE INDEX chain_runs_ended ON chain_runs (completed_at) WHERE completed_at IS NOT NULL;

-- Runs of jobs as steps of a chain run. A job has at most one run per chain run.
CREATE TABLE chain_steps (
    chain_run_id TEXT NOT NULL REFERENCES chain_runs (id),
    job_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    -- Last recorded status, used when the run itself was purged.
    status TEXT NOT NULL,
    PRIMARY KEY (chain_run_id, job_id)
);
CREATE INDEX chain_steps_run ON chain_steps (run_id);

-- Actions that run when an event occurs.
CREATE TABLE hooks (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    event_type TEXT NOT NULL,
    hook_type TEXT NOT NULL CHECK (hook_type IN ('http', 'python', 'builtin')),
    enabled BIGINT NOT NULL,
    disabled_reason TEXT,
    -- `global` or `agent:<svc_name>`; agent_id is the id of that agent.
    scope TEXT NOT NULL,
    agent_id TEXT,
    -- JSON. The value of the member `secret` is stored in `secrets`.
    config TEXT NOT NULL,
    has_secret BIGINT NOT NULL,
    source_code TEXT,
    filter_expr TEXT,
    priority BIGINT NOT NULL,
    tags TEXT NOT NULL,
    max_retries BIGINT NOT NULL,
    bundled_id TEXT,
    -- Outbox position after which the hook receives events, and id of the database that the position belongs to. In any
    -- other database the hook receives all unread events.
    heard_after TEXT NOT NULL,
    heard_in TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX hooks_agent ON hooks (agent_id) WHERE agent_id IS NOT NULL;

-- Version that increases with every change of a hook, so that a transaction can verify that cached hooks are current.
CREATE TABLE hook_versions (
    name TEXT PRIMARY KEY NOT NULL,
    version BIGINT NOT NULL
);

-- Deliveries of events to receivers.
CREATE TABLE hook_deliveries (
    id TEXT PRIMARY KEY NOT NULL,
    hook_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    payload TEXT NOT NULL,
    depth BIGINT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'processing', 'success', 'failed', 'dead_letter')),
    -- Number of attempts with a known result.
    attempt_count BIGINT NOT NULL,
    -- Time from which the delivery may be claimed; while it is processed, the expiry of the lease. NULL once it has
    -- ended.
    due_at BIGINT,
    -- Number of claims.
    fence BIGINT NOT NULL,
    owner TEXT,
    response_status BIGINT,
    duration_ms BIGINT,
    error TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- Trace context of the event, as a W3C `traceparent` header.
    traceparent TEXT,
    UNIQUE (hook_id, event_id)
);
CREATE INDEX hook_deliveries_due ON hook_deliveries (hook_id, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX hook_deliveries_recent ON hook_deliveries (hook_id, created_at, id);
CREATE INDEX hook_deliveries_status ON hook_deliveries (status, hook_id, created_at, id);

-- Executions of hooks that run code or a built-in action. attempt_count, due_at and fence are as in hook_deliveries. An
-- execution is 'running' from the start, also before its first claim.
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
    -- Id of the created session, notification or episode. Events with this id are attributed to the hook.
    caused_id TEXT,
    started_at BIGINT NOT NULL,
    completed_at BIGINT,
    duration_ms BIGINT,
    created_at BIGINT NOT NULL,
    traceparent TEXT,
    UNIQUE (hook_id, event_id)
);
CREATE INDEX hook_executions_due ON hook_executions (hook_id, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX hook_executions_recent ON hook_executions (hook_id, created_at, id);
CREATE INDEX hook_executions_status ON hook_executions (status, hook_id, created_at, id);
CREATE INDEX hook_executions_caused ON hook_executions (caused_id) WHERE caused_id IS NOT NULL;

-- Circuit breakers of receivers that failed since their last success.
CREATE TABLE hook_circuits (
    hook_id TEXT PRIMARY KEY NOT NULL,
    -- Number of consecutive failures, and number of times the circuit opened for them.
    failures BIGINT NOT NULL,
    openings BIGINT NOT NULL,
    -- Nothing is sent before this time; then one delivery probes the receiver. NULL if the circuit never opened.
    open_until BIGINT
);

-- Numbers of completed deliveries and executions, and their total duration, per quarter of an hour.
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

-- Projects. A deleted project stays hidden until all references to it are cleared.
CREATE TABLE projects (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    status TEXT NOT NULL CHECK (status IN ('active', 'paused', 'completed', 'archived')),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX projects_recent ON projects (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX projects_deleted ON projects (deleted_at) WHERE deleted_at IS NOT NULL;

-- Endpoints for signed requests from other systems. Their secrets are stored in `secrets`. A deleted webhook stays
-- hidden until its deliveries are purged.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    agent_id TEXT,
    prompt_template TEXT,
    tools TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    disabled_reason TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX webhooks_agent ON webhooks (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX webhooks_deleted ON webhooks (deleted_at) WHERE deleted_at IS NOT NULL;

-- Accepted requests and their outcome.
CREATE TABLE webhook_deliveries (
    id TEXT PRIMARY KEY NOT NULL,
    webhook_id TEXT NOT NULL,
    message_id TEXT,
    replay_of TEXT,
    event_id TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('received', 'pending', 'running', 'success', 'failed', 'cancelled', 'interrupted')),
    body_bytes BIGINT NOT NULL,
    -- Agent whose turn the request started.
    agent_id TEXT,
    session_id TEXT,
    output TEXT,
    error TEXT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    completed_at BIGINT
);
CREATE INDEX webhook_deliveries_recent ON webhook_deliveries (webhook_id, created_at, id, body_bytes);
CREATE INDEX webhook_deliveries_status ON webhook_deliveries (webhook_id, status, created_at, id);
CREATE INDEX webhook_deliveries_age ON webhook_deliveries (created_at);
CREATE INDEX webhook_deliveries_agent ON webhook_deliveries (agent_id) WHERE agent_id IS NOT NULL;

-- Contents of requests. Separate from webhook_deliveries, so that an update of a delivery does not rewrite a body of up
-- to two megabytes.
CREATE TABLE webhook_requests (
    delivery_id TEXT PRIMARY KEY NOT NULL REFERENCES webhook_deliveries (id),
    headers TEXT NOT NULL,
    body BYTEA NOT NULL
);

-- Message ids assigned by senders, for deduplication: a message id repeated within one day belongs to the same
-- delivery.
CREATE TABLE webhook_messages (
    webhook_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (webhook_id, message_id)
);
CREATE INDEX webhook_messages_age ON webhook_messages (received_at);

-- Turns started by agents themselves. The unique constraints limit them to a number per agent and day, and to one per
-- cause.
CREATE TABLE proactive_turns (
    id TEXT PRIMARY KEY NOT NULL,
    -- NULL if the agent was deleted; the row remains, so that its cause does not start another turn.
    agent_id TEXT,
    -- Date in the profile's time zone, such as 2026-01-31, and number of the turn on that day.
    day TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    cause TEXT NOT NULL CHECK (cause IN ('failed_run', 'suggestion')),
    -- Id of the failed run, or days and time of the suggestion.
    cause_id TEXT NOT NULL,
    job_id TEXT,
    subject TEXT NOT NULL,
    reason TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'success', 'failed', 'cancelled', 'interrupted')),
    session_id TEXT,
    output TEXT,
    error TEXT,
    started_at BIGINT NOT NULL,
    completed_at BIGINT,
    UNIQUE (agent_id, day, ordinal),
    UNIQUE (cause, cause_id)
);
CREATE INDEX proactive_turns_recent ON proactive_turns (started_at, id);

-- Number of deleted runs by time of creation, so that daily totals do not decrease when runs are deleted. Retained for
-- three days.
CREATE TABLE job_runs_gone (
    -- Quarters of an hour since the Unix epoch.
    quarter BIGINT PRIMARY KEY NOT NULL,
    runs BIGINT NOT NULL
);

-- Messages whose episodes were deleted. Later summaries of their conversations exclude them.
CREATE TABLE memory_forgotten (
    origin TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL
);
CREATE INDEX memory_forgotten_agent ON memory_forgotten (agent_id);

-- Times at which memory settings were turned on and off.
CREATE TABLE memory_toggles (
    name TEXT PRIMARY KEY NOT NULL,
    on_since BIGINT NOT NULL,
    -- NULL while the setting is on.
    off_since BIGINT
);

-- Event counters in buckets that become coarser with age. Each count is in exactly one row. Counters without a label
-- start per minute, those with a label per quarter of an hour; later, both are merged per day.
CREATE TABLE counters (
    name TEXT NOT NULL,
    -- Start of the bucket; for a day its middle, so that it stays in its day if the time zone changes by some hours.
    at BIGINT NOT NULL,
    -- Length of the bucket in seconds.
    span BIGINT NOT NULL,
    label TEXT NOT NULL,
    shard BIGINT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (name, at, span, label, shard)
);
CREATE INDEX counters_age ON counters (span, at);

-- Latency histograms in buckets as in `counters`, at first per minute, later per hour, finally per day.
CREATE TABLE latencies (
    series TEXT NOT NULL,
    at BIGINT NOT NULL,
    span BIGINT NOT NULL,
    label TEXT NOT NULL,
    -- Rows that were stored together; '' after rows were merged.
    batch TEXT NOT NULL,
    count BIGINT NOT NULL,
    errors BIGINT NOT NULL,
    -- Histogram that can be added to others.
    buckets BYTEA NOT NULL,
    PRIMARY KEY (series, at, span, label, batch)
);
CREATE INDEX latencies_age ON latencies (span, at);

-- Usage of models in buckets as in `counters`, at first per quarter of an hour, later per day. Each call is counted
-- once per dimension; a row per combination of dimensions would need as many rows as calls.
CREATE TABLE usage_rollups (
    dimension TEXT NOT NULL CHECK (dimension IN ('model', 'agent', 'project', 'origin', 'key')),
    at BIGINT NOT NULL,
    span BIGINT NOT NULL,
    -- Value of the dimension; '' if unknown.
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

-- Alert rules and their state. Columns of a firing are NULL while there is none.
CREATE TABLE alerts (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    expression TEXT NOT NULL,
    threshold DOUBLE PRECISION NOT NULL,
    period_minutes BIGINT NOT NULL,
    for_minutes BIGINT NOT NULL,
    notify_every_minutes BIGINT NOT NULL,
    notify_resolved BIGINT NOT NULL,
    severity TEXT NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
    delivery_type TEXT CHECK (delivery_type IN ('webhook', 'email', 'channel')),
    -- Credentials in the URL are stored in `secrets`.
    delivery_url TEXT,
    enabled BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('ok', 'firing', 'acknowledged', 'snoozed', 'resolved')),
    -- Time since which the condition is true without a firing; NULL if it is not.
    pending_since BIGINT,
    firing_id TEXT,
    firing_since BIGINT,
    acknowledged_at BIGINT,
    snoozed_at BIGINT,
    snoozed_until BIGINT,
    noticed_at BIGINT,
    -- Number of notices of the current firing.
    notices BIGINT NOT NULL,
    -- Time at which the alert was resolved manually; reset to NULL when the condition is false or the alert fires
    -- again.
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
    peak_value DOUBLE PRECISION
);
CREATE INDEX alert_firings_alert ON alert_firings (alert_id, started_at, id);
CREATE INDEX alert_firings_ended ON alert_firings (ended_at) WHERE ended_at IS NOT NULL;

-- Newest notices of each firing.
CREATE TABLE alert_notices (
    firing_id TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    at BIGINT NOT NULL,
    target TEXT NOT NULL,
    -- Reason why the notice could not be enqueued.
    error TEXT,
    PRIMARY KEY (firing_id, ordinal)
);

-- At most one row: the last evaluation by any daemon.
CREATE TABLE alert_evaluator (
    id BIGINT PRIMARY KEY NOT NULL CHECK (id = 1),
    evaluated_at BIGINT NOT NULL
);

-- Values of the last evaluation as a JSON object, one row per period used by alerts.
CREATE TABLE alert_figures (
    period_minutes BIGINT PRIMARY KEY NOT NULL,
    figures TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Steps of a turn that are not session events, for its trace.
CREATE TABLE session_steps (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    -- Id of the span.
    id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('recall', 'model_call')),
    started_at BIGINT,
    ended_at BIGINT,
    data TEXT NOT NULL,
    PRIMARY KEY (session_id, id)
);

-- Prices set by the owner, as JSON. They take precedence over the built-in price table.
CREATE TABLE model_prices (
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    price TEXT NOT NULL,
    PRIMARY KEY (provider, model)
);

-- Tokens reserved for model calls in progress. A reservation is settled with the usage of its call. One that is not
-- renewed before it expires belonged to a stopped daemon.
CREATE TABLE budget_reservations (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    -- Maximum number of tokens that the call can use.
    tokens BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- One row. On PostgreSQL every reservation updates it first, which serializes the reservations of all replicas.
CREATE TABLE budget_turn (
    id BIGINT PRIMARY KEY NOT NULL,
    taken BIGINT NOT NULL
);

-- Messages received from chat platforms. A message that its platform sends more than once has one row.
CREATE TABLE channel_messages (
    id TEXT PRIMARY KEY NOT NULL,
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    -- 1 if the owner approved the sender or listed it in the settings; messages of others are untrusted.
    is_trusted BIGINT NOT NULL,
    chat_id TEXT NOT NULL,
    -- Empty if there is none.
    thread TEXT NOT NULL,
    is_group BIGINT NOT NULL,
    content TEXT NOT NULL,
    -- JSON array of the attached files, without their contents.
    attachments TEXT NOT NULL,
    -- Address of the reply, as JSON.
    reply_to TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'answered', 'failed', 'dropped')),
    agent_id TEXT,
    conversation_id TEXT,
    session_id TEXT,
    -- Message of the conversation that is the reply.
    message_id TEXT,
    error TEXT,
    received_at BIGINT NOT NULL,
    completed_at BIGINT,
    -- Text of others that the message forwards or answers; empty if there is none.
    context TEXT NOT NULL DEFAULT '',
    -- Album that the message is a part of; NULL if there is none or its parts were joined.
    album TEXT,
    -- 0 if the agent is not mentioned, which is allowed if another part of the same album mentions it.
    is_addressed BIGINT NOT NULL DEFAULT 1,
    UNIQUE (platform, external_id)
);
CREATE INDEX channel_messages_session ON channel_messages (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX channel_messages_open ON channel_messages (platform, chat_id, thread, id) WHERE status IN ('pending', 'running');
CREATE INDEX channel_messages_untrusted ON channel_messages (platform, chat_id, thread) WHERE is_trusted = 0;
CREATE INDEX channel_messages_agent ON channel_messages (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX channel_messages_age ON channel_messages (received_at);
CREATE INDEX channel_messages_album ON channel_messages (platform, chat_id, album) WHERE album IS NOT NULL;

-- Current conversation of each chat or thread.
CREATE TABLE channel_conversations (
    platform TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    thread TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (platform, chat_id, thread)
);
CREATE INDEX channel_conversations_conversation ON channel_conversations (conversation_id);

-- Unknown senders that requested access.
CREATE TABLE channel_pairings (
    platform TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    code TEXT NOT NULL,
    -- Address of the reply, as JSON.
    reply_to TEXT NOT NULL,
    -- 1 if the owner refused the request; the sender receives no other code before expires_at.
    is_refused BIGINT NOT NULL,
    requested_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (platform, sender_id),
    UNIQUE (platform, code)
);

-- Senders approved by the owner.
CREATE TABLE channel_senders (
    platform TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    approved_at BIGINT NOT NULL,
    PRIMARY KEY (platform, sender_id)
);

-- Last activity and last error of each platform.
CREATE TABLE channel_states (
    platform TEXT PRIMARY KEY NOT NULL,
    last_received_at BIGINT,
    last_error TEXT,
    last_error_at BIGINT,
    pairing_limit_noted_at BIGINT
);

-- Connections to platforms, each held by the daemon that has its lease in `leases`.
CREATE TABLE channel_connections (
    platform TEXT PRIMARY KEY NOT NULL,
    -- Position from which the next connection resumes; NULL if there is none.
    resume TEXT,
    -- 1 while the connection receives messages.
    is_connected BIGINT NOT NULL DEFAULT 0
);

-- Saved sign-in states of the browser. Their contents are stored in `secrets`.
CREATE TABLE browser_auth_states (
    name TEXT PRIMARY KEY NOT NULL,
    cookie_count BIGINT NOT NULL,
    origin_count BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Web Push subscriptions of devices. Their endpoints and keys are stored in `secrets`.
CREATE TABLE push_subscriptions (
    id TEXT PRIMARY KEY NOT NULL,
    -- SHA-256 of the endpoint, by which a repeated subscription is recognized.
    endpoint_sha256 TEXT NOT NULL UNIQUE,
    service TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_success_at BIGINT,
    last_failure_at BIGINT,
    last_error TEXT
);

-- Sender on each platform who can decide approvals in its chats.
CREATE TABLE channel_owners (
    platform TEXT PRIMARY KEY NOT NULL,
    sender_id TEXT NOT NULL
);

-- Approvals requested in a chat, and the message with their buttons.
CREATE TABLE channel_approvals (
    approval_id TEXT PRIMARY KEY NOT NULL,
    platform TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    -- Empty if there is none.
    thread TEXT NOT NULL,
    -- Number by which a reply refers to the approval.
    code BIGINT NOT NULL,
    -- 1 if the message shows the whole input; otherwise the approval can only be rejected in the chat.
    can_approve BIGINT NOT NULL,
    -- NULL until the message is sent.
    message_id TEXT,
    UNIQUE (platform, chat_id, thread, code)
);

-- Leases by name, for work that only one daemon performs at a time.
CREATE TABLE leases (
    name TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    -- Number of times the lease was acquired.
    fence BIGINT NOT NULL,
    lease_until BIGINT NOT NULL
);

-- Built-in alerts, disabled by default.
INSERT INTO alerts (id, name, expression, threshold, period_minutes, for_minutes, notify_every_minutes, notify_resolved, severity, delivery_type, delivery_url, enabled, state, notices, created_at, updated_at) VALUES
    ('alert_01k00000000000000000000001', 'Failed messages or deliveries', 'dead_letters > threshold', 0.0, 15, 0, 60, 0, 'warning', 'email', '', 0, 'ok', 0, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000),
    ('alert_01k00000000000000000000002', 'Disk almost full', 'disk_percent > threshold', 90.0, 5, 5, 60, 0, 'critical', 'email', '', 0, 'ok', 0, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000),
    ('alert_01k00000000000000000000003', 'High request error rate', 'error_rate > threshold && requests_per_minute >= 1', 0.05, 5, 5, 60, 0, 'warning', 'email', '', 0, 'ok', 0, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000),
    ('alert_01k00000000000000000000004', 'Job failing repeatedly', 'consecutive_failed_runs >= threshold', 3.0, 1440, 0, 60, 0, 'warning', 'email', '', 0, 'ok', 0, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000),
    ('alert_01k00000000000000000000005', 'Token budget almost used up', 'budget_percent >= threshold', 80.0, 5, 0, 60, 0, 'warning', 'email', '', 0, 'ok', 0, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000),
    ('alert_01k00000000000000000000006', 'All model calls failing', 'failed_model_calls >= model_calls && model_calls > threshold', 0.0, 15, 0, 60, 0, 'critical', 'email', '', 0, 'ok', 0, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000, CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000);
