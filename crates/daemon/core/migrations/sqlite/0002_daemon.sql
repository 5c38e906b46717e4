-- One row a category that was ever changed; a category without a row has its defaults.
CREATE TABLE settings (
    section TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Sealed with the key file: a version byte, a nonce, and ciphertext bound to scope and name.
CREATE TABLE secrets (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (scope, name)
);

-- What happened once and never again: the first account, the first key. The primary key decides
-- races, and a row outlives what it names, so revoking the last key does not reopen bootstrap.
CREATE TABLE bootstrap_claims (
    claim TEXT PRIMARY KEY NOT NULL CHECK (claim IN ('first_user', 'first_key')),
    claimed_by TEXT NOT NULL,
    claimed_at BIGINT NOT NULL
);

-- password_hash: argon2id in PHC form.
CREATE TABLE users (
    id TEXT PRIMARY KEY NOT NULL,
    username TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- key_hash: SHA-256; the key itself is nowhere. Revoked keys keep their row.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    scope TEXT NOT NULL CHECK (scope IN ('full', 'read')),
    key_hash BLOB NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    last_used BIGINT,
    revoked_at BIGINT
);

CREATE TABLE user_sessions (
    id TEXT PRIMARY KEY NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    token_hash BLOB NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- What an owner knows a login by. Sessions from before have none of it.
    last_used_at BIGINT,
    user_agent TEXT,
    address TEXT,
    -- Page sessions: the second secret of each, and until when its password counts as recently entered. Until now the cookie
    -- alone was the credential and reached every port of the host, so all sessions end.
    page_secret_hash BLOB,
    reauthenticated_until BIGINT
);
CREATE INDEX user_sessions_of_user ON user_sessions (user_id, created_at);
CREATE INDEX user_sessions_expiry ON user_sessions (expires_at);
CREATE UNIQUE INDEX user_sessions_of_page ON user_sessions (page_secret_hash);

-- One connection each, by whichever replica it reaches. The credential is the one that asked.
CREATE TABLE auth_tickets (
    id TEXT PRIMARY KEY NOT NULL,
    ticket_hash BLOB NOT NULL UNIQUE,
    credential_kind TEXT NOT NULL CHECK (credential_kind IN ('api_key', 'session', 'local')),
    credential_id TEXT NOT NULL,
    user_id TEXT,
    scope TEXT NOT NULL CHECK (scope IN ('full', 'read')),
    expires_at BIGINT NOT NULL
);
CREATE INDEX auth_tickets_of_credential ON auth_tickets (credential_id);
CREATE INDEX auth_tickets_expiry ON auth_tickets (expires_at);

-- Failed logins, and ones still being checked. username_hash: SHA-256, because people type
-- passwords into the wrong field.
CREATE TABLE login_failures (
    id TEXT PRIMARY KEY NOT NULL,
    username_hash BLOB NOT NULL,
    network TEXT NOT NULL,
    failed_at BIGINT NOT NULL
);
CREATE INDEX login_failures_of_user ON login_failures (username_hash, network, failed_at);
CREATE INDEX login_failures_age ON login_failures (failed_at);

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
    cost_micro_usd BIGINT,
    project_id TEXT,
    origin TEXT,
    key_id TEXT
);
CREATE INDEX usage_time ON usage (at);
CREATE INDEX usage_project ON usage (project_id) WHERE project_id IS NOT NULL;
CREATE INDEX usage_agent ON usage (agent_id, at) WHERE agent_id IS NOT NULL;

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

-- Agents. A deleted one stays until the purge is through; its name is free at once.
-- leaves_folder: deleted, and its folder may still stand under its name.
CREATE TABLE agents (
    id TEXT PRIMARY KEY NOT NULL,
    svc_name TEXT NOT NULL,
    user_name TEXT NOT NULL,
    archetypes TEXT NOT NULL,
    custom_archetype TEXT,
    evolution_choice TEXT NOT NULL CHECK (evolution_choice IN ('off', 'check', 'auto')),
    profile TEXT NOT NULL,
    answers TEXT NOT NULL,
    leaves_folder BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE UNIQUE INDEX agents_name ON agents (svc_name) WHERE deleted_at IS NULL;
CREATE INDEX agents_leaving ON agents (svc_name) WHERE leaves_folder = 1;

-- Sessions: one running turn of an agent each. The owner renews its lease; who finds a running
-- session without a valid lease may end it.
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
    -- A session that waits for an approval is held by nobody: what it needs to go on stands here.
    waiting_since BIGINT,
    -- Who asked for a turn.
    origin TEXT NOT NULL DEFAULT 'chat',
    job_id TEXT,
    run_id TEXT,
    -- What a turn used is counted for the project that its conversation had when it began.
    project_id TEXT,
    key_id TEXT,
    -- Where in a trace a turn was asked for, as a `traceparent` header; NULL where it began its own.
    traceparent TEXT,
    -- How long a session waited for approvals, in all: the time limit of a run does not count it.
    waited_micros BIGINT NOT NULL DEFAULT 0
);
-- One turn at a time in a conversation.
CREATE UNIQUE INDEX sessions_turn ON sessions (conversation_id) WHERE status = 'running';
CREATE INDEX sessions_lease ON sessions (lease_until) WHERE status = 'running';
CREATE INDEX sessions_ended ON sessions (completed_at) WHERE completed_at IS NOT NULL;
CREATE INDEX sessions_agent ON sessions (agent_id);
CREATE INDEX sessions_waiting ON sessions (waiting_since) WHERE waiting_since IS NOT NULL;

-- What a session said, in order, kept for a day after its end. Number 0, the start, is not stored:
-- the session's row says it all.
CREATE TABLE session_events (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    -- When a step of a tool was: NULL for pieces of text.
    at BIGINT,
    PRIMARY KEY (session_id, seq)
) WITHOUT ROWID;

-- Conversations. A deleted one stays hidden until its messages are purged.
-- revision rises with every change of the messages, and gives a message its position.
CREATE TABLE conversations (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    title TEXT NOT NULL,
    title_source TEXT NOT NULL CHECK (title_source IN ('default', 'rule', 'owner')),
    mode TEXT NOT NULL CHECK (mode IN ('chat', 'agent', 'plan')),
    execution_mode TEXT NOT NULL CHECK (execution_mode IN ('autonomous', 'approval_required')),
    message_count BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    -- What stands for the messages up to a position when a model is asked. The messages stay.
    summary TEXT,
    summary_through BIGINT NOT NULL DEFAULT 0,
    project_id TEXT,
    -- Which device began a conversation; it may go on in those and in no others.
    device_id TEXT,
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
    -- The rounds of a reply that used tools, as JSON.
    rounds TEXT,
    -- What somebody said whom the owner does not know, and the answers to it.
    is_untrusted BIGINT NOT NULL DEFAULT 0,
    -- Who wrote a reply, with which model, and what the turn used.
    agent_id TEXT,
    provider TEXT,
    model TEXT,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cost_micro_usd BIGINT,
    duration_ms BIGINT,
    UNIQUE (conversation_id, position)
);
-- When owners write, which suggestions and the heatmap look at.
CREATE INDEX messages_written ON messages (created_at) WHERE role = 'user';

CREATE TABLE parked_turns (
    session_id TEXT PRIMARY KEY NOT NULL REFERENCES sessions (id),
    state TEXT NOT NULL
);

-- What an owner is asked before it happens. `input` is the whole of it; what runs is held against
-- its hash.
CREATE TABLE approvals (
    id TEXT PRIMARY KEY NOT NULL,
    kind TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    session_id TEXT,
    conversation_id TEXT,
    call_id TEXT,
    tool TEXT NOT NULL,
    input TEXT NOT NULL,
    input_sha256 TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'cancelled')),
    reason TEXT,
    requested_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT,
    -- Where the untrusted text comes from that an approval asks because of, and that a summary was made of: JSON lists.
    untrusted_sources TEXT
);
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE status = 'pending';
CREATE INDEX approvals_session ON approvals (session_id);
CREATE INDEX approvals_agent ON approvals (agent_id);
CREATE INDEX approvals_recent ON approvals (requested_at, id);
-- One proposal at a time waits for the owner of an agent.
CREATE UNIQUE INDEX approvals_evolution ON approvals (agent_id) WHERE kind = 'evolution' AND status = 'pending';

-- Messages that were cut off and are still to be purged: those of a conversation whose position is
-- beyond after_position, up to through_position. They are out of sight from the commit of this row.
CREATE TABLE message_cuts (
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    after_position BIGINT NOT NULL,
    through_position BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, after_position, through_position)
);

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
    updated_at BIGINT NOT NULL,
    -- Where in a chat a message goes, and what can be pressed under it: JSON, of messages to chat platforms.
    details TEXT
);
CREATE INDEX notifications_recent ON notifications (created_at, id);
CREATE INDEX notifications_status ON notifications (status, created_at, id);
CREATE INDEX notifications_ended ON notifications (updated_at) WHERE status <> 'pending';
-- Platforms say later, by their own ids, which messages did not arrive.
CREATE INDEX notifications_reference ON notifications (platform, reference) WHERE reference IS NOT NULL;

-- Built-in tools are on unless they are here.
CREATE TABLE builtin_tools_off (
    name TEXT PRIMARY KEY NOT NULL
);

-- Tools that the owner made. Secret headers lie in `secrets`; `request` holds their names.
CREATE TABLE custom_tools (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    input_schema TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('python', 'http', 'shell')),
    source_code TEXT,
    request TEXT,
    timeout_seconds BIGINT NOT NULL,
    enabled BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Every version of an agent's instructions; the highest is the one in force. Empty: none.
CREATE TABLE agent_versions (
    agent_id TEXT NOT NULL REFERENCES agents (id),
    version BIGINT NOT NULL,
    instructions TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('created', 'owner', 'evolution', 'restore')),
    reason TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, version)
) WITHOUT ROWID;

-- How much an agent has talked since it was last asked what it learned.
CREATE TABLE evolution (
    agent_id TEXT PRIMARY KEY NOT NULL,
    turns BIGINT NOT NULL,
    considered_at BIGINT
);

-- Machines of the owner that are paired with the daemon. connection_id and connected_to: the socket in force and the
-- daemon that holds it; null while there is none.
CREATE TABLE devices (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    slug TEXT NOT NULL UNIQUE,
    platform TEXT NOT NULL,
    metadata TEXT NOT NULL,
    token_hash BLOB NOT NULL UNIQUE,
    connection_id TEXT,
    connected_to TEXT,
    created_at BIGINT NOT NULL,
    last_seen_at BIGINT
);

-- Codes that can still be used. A used or voided one is deleted. code_hash covers the id, too.
CREATE TABLE device_pairing_codes (
    id TEXT PRIMARY KEY NOT NULL,
    code_hash BLOB NOT NULL,
    wrong_tries BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX device_pairing_codes_expiry ON device_pairing_codes (expires_at);

-- Wrong codes by the network that they came from.
CREATE TABLE device_pairing_failures (
    id TEXT PRIMARY KEY NOT NULL,
    network TEXT NOT NULL,
    failed_at BIGINT NOT NULL
);
CREATE INDEX device_pairing_failures_of_network ON device_pairing_failures (network, failed_at);
CREATE INDEX device_pairing_failures_age ON device_pairing_failures (failed_at);

-- Tool servers that the owner registered. `reach` says how to get to one, without the values of
-- variables and headers, which lie in `secrets`; `revision` counts the changes of either.
CREATE TABLE tool_servers (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL UNIQUE,
    reach TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    trusted BIGINT NOT NULL,
    timeout_seconds BIGINT NOT NULL,
    catalog_entry TEXT,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- What a server said last that it offers: known without asking it.
CREATE TABLE tool_server_listings (
    server_id TEXT PRIMARY KEY NOT NULL REFERENCES tool_servers (id),
    listing TEXT NOT NULL,
    listed_at BIGINT NOT NULL
);

-- What agents remember. `number` is the order of creation and what the search indexes know an episode by.
CREATE TABLE episodes (
    number INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    agent_id TEXT,
    source TEXT NOT NULL,
    -- What it was made from, so that it is made once.
    origin TEXT UNIQUE,
    content TEXT NOT NULL,
    summary TEXT,
    topics TEXT NOT NULL,
    -- In millionths, so that sums are exact.
    importance BIGINT NOT NULL,
    valence BIGINT NOT NULL,
    access_count BIGINT NOT NULL,
    -- How often an answer was judged after it was recalled, and how often the answer made use of it.
    judged_count BIGINT NOT NULL DEFAULT 0,
    used_count BIGINT NOT NULL DEFAULT 0,
    -- The newer episode that says otherwise.
    superseded_by TEXT,
    -- Whose vectors it has; NULL while it has none.
    embedding_model TEXT,
    -- By which rules entities were looked for; 0: not yet.
    extraction BIGINT NOT NULL,
    occurred_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- When it was last stored, recalled or changed.
    touched_at BIGINT NOT NULL,
    -- Whether an episode was made from untrusted text, as all are that hooks store.
    is_untrusted BIGINT NOT NULL DEFAULT 0,
    -- A hash of the words of the content, by which repeated episodes are found; NULL for a text without words.
    wording BIGINT
);
CREATE INDEX episodes_agent ON episodes (agent_id, number);
CREATE INDEX episodes_superseded ON episodes (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX episodes_touched ON episodes (touched_at, number);
CREATE INDEX episodes_own_importance ON episodes (importance, number) WHERE origin IS NOT NULL;
CREATE INDEX episodes_embedding ON episodes (embedding_model, number);
CREATE INDEX episodes_extraction ON episodes (extraction, number);
CREATE INDEX episodes_wording ON episodes (agent_id, wording, number) WHERE wording IS NOT NULL;

-- Little-endian 32-bit floats, one row for each part of a long text.
CREATE TABLE episode_vectors (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    part BIGINT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (episode, part)
) WITHOUT ROWID;

CREATE TABLE entities (
    number INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
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
) WITHOUT ROWID;
CREATE INDEX episode_entities_entity ON episode_entities (entity, episode);

-- Weights in thousandths.
CREATE TABLE entity_relations (
    source BIGINT NOT NULL REFERENCES entities (number),
    target BIGINT NOT NULL REFERENCES entities (number),
    relation_type TEXT NOT NULL,
    weight BIGINT NOT NULL,
    episodes BIGINT NOT NULL,
    PRIMARY KEY (source, target, relation_type)
) WITHOUT ROWID;
CREATE INDEX entity_relations_weight ON entity_relations (weight);
CREATE INDEX entity_relations_target ON entity_relations (target);

CREATE TABLE episode_relations (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    source BIGINT NOT NULL,
    target BIGINT NOT NULL,
    relation_type TEXT NOT NULL,
    weight BIGINT NOT NULL,
    PRIMARY KEY (episode, source, target, relation_type)
) WITHOUT ROWID;

-- Figures of the statistics, changed with what they count.
CREATE TABLE memory_counts (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- Simple facts that episodes of agents state; two values of one attribute contradict each other.
CREATE TABLE episode_facts (
    episode BIGINT NOT NULL REFERENCES episodes (number),
    place BIGINT NOT NULL,
    agent_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    attribute TEXT NOT NULL,
    value TEXT NOT NULL,
    polarity BIGINT NOT NULL,
    PRIMARY KEY (episode, place)
) WITHOUT ROWID;
CREATE INDEX episode_facts_of ON episode_facts (agent_id, subject, attribute);

-- How far a conversation was gone through: the position of its last message, and the revision that was
-- seen whole, by what remembers messages and by what sums conversations up.
CREATE TABLE memory_talks (
    conversation_id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    through BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    insight_revision BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX memory_talks_agent ON memory_talks (agent_id);

-- Long work: who does it, and how far it is. `place` is where the next run goes on.
CREATE TABLE memory_jobs (
    name TEXT PRIMARY KEY NOT NULL,
    owner TEXT,
    attempt BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    place BIGINT NOT NULL,
    done BIGINT NOT NULL,
    total BIGINT NOT NULL,
    processed BIGINT NOT NULL,
    created BIGINT NOT NULL,
    merged BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    updated_at BIGINT NOT NULL
) WITHOUT ROWID;

-- What agents are to do, and when. Only an active job has a `next_run_at`, so the index on it holds what a
-- tick has to look at and nothing else. `counted_from` is the last scheduled slot, or when the job was made
-- or resumed: no slot before it is handed out any more, and intervals count from it.
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
    counted_from BIGINT NOT NULL,
    next_run_at BIGINT,
    last_run_at BIGINT,
    run_count BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    -- What a run of a job uses is counted for the project that its job has when its attempt begins.
    project_id TEXT,
    -- Jobs that an agent planned by itself; what their owner planned does not count for the agent's bound.
    made_by_agent BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX jobs_due ON jobs (next_run_at, id) WHERE next_run_at IS NOT NULL;
CREATE INDEX jobs_recent ON jobs (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX jobs_status ON jobs (status, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX jobs_agent ON jobs (agent_id, id);
CREATE INDEX jobs_deleted ON jobs (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX jobs_project ON jobs (project_id, created_at, id) WHERE project_id IS NOT NULL;

-- One row for each slot of a job, and for each time it was started otherwise (`scheduled_for` is NULL then).
-- `due_at` is when a pending run may be claimed, and when the claim on a running one without a session ends;
-- it is NULL for a running one with a session, which the session holds, and for those that are over.
CREATE TABLE job_runs (
    id TEXT PRIMARY KEY NOT NULL,
    job_id TEXT NOT NULL REFERENCES jobs (id),
    agent_id TEXT NOT NULL,
    scheduled_for BIGINT,
    cause TEXT NOT NULL CHECK (cause IN ('schedule', 'manual', 'chain')),
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'success', 'failed', 'cancelled', 'skipped', 'timeout')),
    may_overlap BIGINT NOT NULL,
    due_at BIGINT,
    attempt BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    owner TEXT,
    session_id TEXT,
    -- When the time of the attempt under way is up.
    deadline_at BIGINT,
    -- Why it is being stopped: cancel, timeout, replaced.
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

-- Jobs that follow each other. `edges` is a JSON array of {from, to, type}.
CREATE TABLE job_chains (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
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

-- Which run of a job is the step of which run of a chain: one at most.
CREATE TABLE chain_steps (
    chain_run_id TEXT NOT NULL REFERENCES chain_runs (id),
    job_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    status TEXT NOT NULL,
    PRIMARY KEY (chain_run_id, job_id)
);
CREATE INDEX chain_steps_run ON chain_steps (run_id);

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
    -- Where in a trace the event happened that a hook hears.
    traceparent TEXT,
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
    traceparent TEXT,
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

-- Projects. A deleted one stays, out of sight, until its name is off all that named it.
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

-- Doors for signed requests from outside. Their secrets are in `secrets`. A deleted one stays, out of sight, until
-- its deliveries are purged.
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

-- Requests that were accepted, and what became of each. agent_id: whose turn it started.
CREATE TABLE webhook_deliveries (
    id TEXT PRIMARY KEY NOT NULL,
    webhook_id TEXT NOT NULL,
    message_id TEXT,
    replay_of TEXT,
    event_id TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('received', 'pending', 'running', 'success', 'failed', 'cancelled', 'interrupted')),
    body_bytes BIGINT NOT NULL,
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

-- What came, beside its delivery: a change of a delivery does not write two megabytes again.
CREATE TABLE webhook_requests (
    delivery_id TEXT PRIMARY KEY NOT NULL REFERENCES webhook_deliveries (id),
    headers TEXT NOT NULL,
    body BLOB NOT NULL
);

-- The senders' own ids of what came in the last day: the same one again is the same delivery.
CREATE TABLE webhook_messages (
    webhook_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (webhook_id, message_id)
);
CREATE INDEX webhook_messages_age ON webhook_messages (received_at);

-- Turns that agents began by themselves. Both constraints are what bounds them: so many of an agent and day, and one
-- of each cause, ever. `agent_id` is NULL once the agent was deleted, where the row stays as the memory of its cause.
CREATE TABLE proactive_turns (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT,
    -- In the profile's time zone, 2026-01-31, and the how manieth turn of it.
    day TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    cause TEXT NOT NULL CHECK (cause IN ('failed_run', 'suggestion')),
    -- The run, or the days and the time of a suggestion.
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

-- Runs that are not kept any more, by the quarter of an hour in which they were planned: figures of a day do not
-- fall when rows go. Kept for some days.
CREATE TABLE job_runs_gone (
    quarter BIGINT PRIMARY KEY NOT NULL,
    runs BIGINT NOT NULL
);

-- Messages whose episodes somebody deleted: what is made from their conversations later leaves them out.
CREATE TABLE memory_forgotten (
    origin TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX memory_forgotten_agent ON memory_forgotten (agent_id);

-- Settings of memory whose times count: on from `on_since`, until `off_since`, which is NULL while they are on.
CREATE TABLE memory_toggles (
    name TEXT PRIMARY KEY NOT NULL,
    on_since BIGINT NOT NULL,
    off_since BIGINT
) WITHOUT ROWID;

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
) WITHOUT ROWID;
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
    buckets BLOB NOT NULL,
    PRIMARY KEY (series, at, span, label, batch)
) WITHOUT ROWID;
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
) WITHOUT ROWID;
CREATE INDEX usage_rollups_age ON usage_rollups (span, at);

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

-- What a turn did besides what its log shows, for its trace. `id` is that of the span.
CREATE TABLE session_steps (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('recall', 'model_call')),
    started_at BIGINT,
    ended_at BIGINT,
    data TEXT NOT NULL,
    PRIMARY KEY (session_id, id)
) WITHOUT ROWID;

-- Prices that the owner set, each as JSON. They go before the table that ships with the daemon.
CREATE TABLE model_prices (
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    price TEXT NOT NULL,
    PRIMARY KEY (provider, model)
) WITHOUT ROWID;

-- Tokens that are set aside for a call of a model which is under way: at most so many it can use. Settled with the
-- usage of the call. What is not renewed in time belonged to a daemon that is gone.
CREATE TABLE budget_reservations (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
) WITHOUT ROWID;

-- One row. Whoever sets tokens aside changes it first, so that replicas do so one after the other.
CREATE TABLE budget_turn (
    id BIGINT PRIMARY KEY NOT NULL,
    taken BIGINT NOT NULL
) WITHOUT ROWID;

-- Messages of chat platforms. One row a message, however often its platform sends it.
CREATE TABLE channel_messages (
    id TEXT PRIMARY KEY NOT NULL,
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    -- Whether the owner let the sender in, or named them; what others write is untrusted.
    is_trusted BIGINT NOT NULL,
    chat_id TEXT NOT NULL,
    -- Empty: none.
    thread TEXT NOT NULL,
    is_group BIGINT NOT NULL,
    content TEXT NOT NULL,
    -- JSON: the names of files.
    attachments TEXT NOT NULL,
    -- JSON: where an answer goes.
    reply_to TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'answered', 'failed', 'dropped')),
    agent_id TEXT,
    conversation_id TEXT,
    session_id TEXT,
    -- The message of the conversation that is the answer.
    message_id TEXT,
    error TEXT,
    received_at BIGINT NOT NULL,
    completed_at BIGINT,
    -- Words of others that a message forwards or answers; empty: none.
    context TEXT NOT NULL DEFAULT '',
    -- The album that a message is a part of, until its parts are joined.
    album TEXT,
    -- A part of an album in a group may mention nobody; another part of the same album does.
    is_addressed BIGINT NOT NULL DEFAULT 1,
    UNIQUE (platform, external_id)
);
CREATE INDEX channel_messages_session ON channel_messages (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX channel_messages_open ON channel_messages (platform, chat_id, thread, id) WHERE status IN ('pending', 'running');
CREATE INDEX channel_messages_untrusted ON channel_messages (platform, chat_id, thread) WHERE is_trusted = 0;
CREATE INDEX channel_messages_agent ON channel_messages (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX channel_messages_age ON channel_messages (received_at);
CREATE INDEX channel_messages_album ON channel_messages (platform, chat_id, album) WHERE album IS NOT NULL;

-- Which conversation goes on in a chat or a thread.
CREATE TABLE channel_conversations (
    platform TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    thread TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (platform, chat_id, thread)
);
CREATE INDEX channel_conversations_conversation ON channel_conversations (conversation_id);

-- Strangers who asked to be let in.
CREATE TABLE channel_pairings (
    platform TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    code TEXT NOT NULL,
    -- JSON: where they are told.
    reply_to TEXT NOT NULL,
    -- The owner said no; no other code is given until it would have ended.
    is_refused BIGINT NOT NULL,
    requested_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (platform, sender_id),
    UNIQUE (platform, code)
);

-- Those whom the owner let in.
CREATE TABLE channel_senders (
    platform TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    approved_at BIGINT NOT NULL,
    PRIMARY KEY (platform, sender_id)
);

-- What was last heard of a platform, and what went wrong.
CREATE TABLE channel_states (
    platform TEXT PRIMARY KEY NOT NULL,
    last_received_at BIGINT,
    last_error TEXT,
    last_error_at BIGINT,
    pairing_limit_noted_at BIGINT
);

-- Which daemon holds the connection to a platform, until when.
CREATE TABLE channel_connections (
    platform TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    lease_until BIGINT NOT NULL,
    -- Where the last connection to a platform was, for whoever opens the next.
    resume TEXT,
    -- Whether messages come by it now.
    is_connected BIGINT NOT NULL DEFAULT 0
);

-- States of being signed in that the owner keeps. What is in one is sealed among the secrets.
CREATE TABLE browser_auth_states (
    name TEXT PRIMARY KEY NOT NULL,
    cookie_count BIGINT NOT NULL,
    origin_count BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Devices that are woken by Web Push. The address and the keys of each lie in the vault; this is what is shown of them.
CREATE TABLE push_subscriptions (
    id TEXT PRIMARY KEY NOT NULL,
    -- Of the address, by which a browser's subscription is known again.
    endpoint_sha256 TEXT NOT NULL UNIQUE,
    service TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_success_at BIGINT,
    last_failure_at BIGINT,
    last_error TEXT
);

-- The sender of each platform who decides approvals in its chats.
CREATE TABLE channel_owners (
    platform TEXT PRIMARY KEY NOT NULL,
    sender_id TEXT NOT NULL
);

-- Approvals that were requested in a chat, and the message with their buttons.
CREATE TABLE channel_approvals (
    approval_id TEXT PRIMARY KEY NOT NULL,
    platform TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    -- Empty: none.
    thread TEXT NOT NULL,
    -- What a reply names the approval by.
    code BIGINT NOT NULL,
    -- Whether the message shows the whole input; otherwise it can only be rejected in the chat.
    can_approve BIGINT NOT NULL,
    -- NULL until the message is sent.
    message_id TEXT,
    UNIQUE (platform, chat_id, thread, code)
);

-- The alerts that every daemon starts with.
INSERT INTO alerts (id, name, expression, threshold, period_minutes, for_minutes, notify_every_minutes, notify_resolved, severity, delivery_type, delivery_url, enabled, state, notices, created_at, updated_at) VALUES
    ('alert_01k00000000000000000000001', 'Messages or deliveries were given up', 'dead_letters > threshold', 0.0, 15, 0, 60, 0, 'warning', 'email', '', 0, 'ok', 0, CAST(strftime('%s', 'now') AS BIGINT) * 1000000, CAST(strftime('%s', 'now') AS BIGINT) * 1000000),
    ('alert_01k00000000000000000000002', 'The disk is nearly full', 'disk_percent > threshold', 90.0, 5, 5, 60, 0, 'critical', 'email', '', 0, 'ok', 0, CAST(strftime('%s', 'now') AS BIGINT) * 1000000, CAST(strftime('%s', 'now') AS BIGINT) * 1000000),
    ('alert_01k00000000000000000000003', 'Many requests fail', 'error_rate > threshold && requests_per_minute >= 1', 0.05, 5, 5, 60, 0, 'warning', 'email', '', 0, 'ok', 0, CAST(strftime('%s', 'now') AS BIGINT) * 1000000, CAST(strftime('%s', 'now') AS BIGINT) * 1000000),
    ('alert_01k00000000000000000000004', 'A job keeps failing', 'consecutive_failed_runs >= threshold', 3.0, 1440, 0, 60, 0, 'warning', 'email', '', 0, 'ok', 0, CAST(strftime('%s', 'now') AS BIGINT) * 1000000, CAST(strftime('%s', 'now') AS BIGINT) * 1000000),
    ('alert_01k00000000000000000000005', 'The token budget is nearly used up', 'budget_percent >= threshold', 80.0, 5, 0, 60, 0, 'warning', 'email', '', 0, 'ok', 0, CAST(strftime('%s', 'now') AS BIGINT) * 1000000, CAST(strftime('%s', 'now') AS BIGINT) * 1000000),
    ('alert_01k00000000000000000000006', 'No call of a model succeeds', 'failed_model_calls >= model_calls && model_calls > threshold', 0.0, 15, 0, 60, 0, 'critical', 'email', '', 0, 'ok', 0, CAST(strftime('%s', 'now') AS BIGINT) * 1000000, CAST(strftime('%s', 'now') AS BIGINT) * 1000000);
