-- Who asked for a turn.
ALTER TABLE sessions ADD COLUMN origin TEXT NOT NULL DEFAULT 'chat';
ALTER TABLE sessions ADD COLUMN job_id TEXT;
ALTER TABLE sessions ADD COLUMN run_id TEXT;

-- What is told of an agent goes with it.
CREATE INDEX outbox_agent ON outbox (agent) WHERE agent IS NOT NULL;

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
    deleted_at BIGINT
);
CREATE INDEX jobs_due ON jobs (next_run_at, id) WHERE next_run_at IS NOT NULL;
CREATE INDEX jobs_recent ON jobs (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX jobs_status ON jobs (status, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX jobs_agent ON jobs (agent_id, id);
CREATE INDEX jobs_deleted ON jobs (deleted_at) WHERE deleted_at IS NOT NULL;

-- One row for each slot of a job, and for each time it was started otherwise (`scheduled_for` is NULL then).
-- `due_at` is when a pending run may be claimed, and when the claim on a running one without a session ends;
-- it is NULL for a running one with a session, which the session holds, and for those that are over.
CREATE TABLE job_runs (
    id TEXT PRIMARY KEY NOT NULL,
    job_id TEXT NOT NULL REFERENCES jobs (id),
    agent_id TEXT NOT NULL,
    scheduled_for BIGINT,
    cause TEXT NOT NULL CHECK (cause IN ('schedule', 'manual', 'chain')),
    status TEXT NOT NULL
        CHECK (status IN ('pending', 'running', 'success', 'failed', 'cancelled', 'skipped', 'timeout')),
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

-- When owners write, which suggestions and the heatmap look at.
CREATE INDEX messages_written ON messages (created_at) WHERE role = 'user';
