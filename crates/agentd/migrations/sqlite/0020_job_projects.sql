-- What a run of a job uses is counted for the project that its job has when its attempt begins.
ALTER TABLE jobs ADD COLUMN project_id TEXT;
CREATE INDEX jobs_project ON jobs (project_id, created_at, id) WHERE project_id IS NOT NULL;
