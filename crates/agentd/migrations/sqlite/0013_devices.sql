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
