-- States of being signed in that the owner keeps. What is in one is sealed among the secrets.
CREATE TABLE browser_auth_states (
    name TEXT PRIMARY KEY NOT NULL,
    cookie_count BIGINT NOT NULL,
    origin_count BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
