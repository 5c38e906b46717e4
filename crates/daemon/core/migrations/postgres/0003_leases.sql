-- Work that one daemon at a time does, by name. `fence` counts how often it was taken and only rises.
CREATE TABLE leases (
    name TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    fence BIGINT NOT NULL,
    lease_until BIGINT NOT NULL
);
ALTER TABLE memory_jobs DROP COLUMN owner;
ALTER TABLE memory_jobs DROP COLUMN attempt;
ALTER TABLE memory_jobs DROP COLUMN lease_until;
ALTER TABLE alert_evaluator DROP COLUMN owner;
ALTER TABLE alert_evaluator DROP COLUMN lease_until;
ALTER TABLE channel_connections DROP COLUMN owner;
ALTER TABLE channel_connections DROP COLUMN lease_until;
