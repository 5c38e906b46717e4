-- How long a session waited for approvals, in all: the time limit of a run does not count it.
ALTER TABLE sessions ADD COLUMN waited_micros BIGINT NOT NULL DEFAULT 0;
