-- Tool servers that the owner registered. `reach` says how to get to one, without the values of
-- variables and headers, which lie in `secrets`; `revision` counts the changes of either.
CREATE TABLE tool_servers (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL UNIQUE,
    reach TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    trusted BIGINT NOT NULL,
    timeout_seconds BIGINT NOT NULL,
    catalog_entry TEXT,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- What a server said last that it offers: known without asking it.
CREATE TABLE tool_server_listings (
    server_id TEXT PRIMARY KEY NOT NULL REFERENCES tool_servers (id),
    listing TEXT NOT NULL,
    listed_at BIGINT NOT NULL
);
