-- Built-in tools are on unless they are here.
CREATE TABLE builtin_tools_off (
    name TEXT PRIMARY KEY NOT NULL
);

-- Tools that the owner made. Secret headers lie in `secrets`; `request` holds their names.
CREATE TABLE custom_tools (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    input_schema TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('python', 'http', 'shell')),
    source_code TEXT,
    request TEXT,
    timeout_seconds BIGINT NOT NULL,
    enabled BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
