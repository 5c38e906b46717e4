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
    expires_at BIGINT NOT NULL
);
CREATE INDEX user_sessions_of_user ON user_sessions (user_id, created_at);
CREATE INDEX user_sessions_expiry ON user_sessions (expires_at);

-- One connection each, by whichever replica it reaches. The credential is the one that asked.
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

-- Failed logins, and ones still being checked. username_hash: SHA-256, because people type
-- passwords into the wrong field.
CREATE TABLE login_failures (
    id TEXT PRIMARY KEY NOT NULL,
    username_hash BYTEA NOT NULL,
    network TEXT NOT NULL,
    failed_at BIGINT NOT NULL
);
CREATE INDEX login_failures_of_user ON login_failures (username_hash, network, failed_at);
CREATE INDEX login_failures_age ON login_failures (failed_at);
