-- Settings of memory whose times count: on from `on_since`, until `off_since`, which is NULL while they are on.
CREATE TABLE memory_toggles (
    name TEXT PRIMARY KEY NOT NULL,
    on_since BIGINT NOT NULL,
    off_since BIGINT
);
-- They were kept among the jobs before.
INSERT INTO memory_toggles (name, on_since, off_since)
SELECT name, COALESCE(started_at, 0), finished_at FROM memory_jobs WHERE name IN ('auto_store', 'enabled');
DELETE FROM memory_jobs WHERE name IN ('auto_store', 'enabled');
