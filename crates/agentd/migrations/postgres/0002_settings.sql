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
    sealed BYTEA NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (scope, name)
);
