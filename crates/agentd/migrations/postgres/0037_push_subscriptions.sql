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
