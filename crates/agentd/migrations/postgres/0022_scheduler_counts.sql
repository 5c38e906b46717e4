-- Jobs that an agent planned by itself; what their owner planned does not count for the agent's bound.
ALTER TABLE jobs ADD COLUMN made_by_agent BIGINT NOT NULL DEFAULT 0;

-- Runs that are not kept any more, by the quarter of an hour in which they were planned: figures of a day do not
-- fall when rows go. Kept for some days.
CREATE TABLE job_runs_gone (
    quarter BIGINT PRIMARY KEY NOT NULL,
    runs BIGINT NOT NULL
);
