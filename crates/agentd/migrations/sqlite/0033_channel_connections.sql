-- Where the last connection to a platform was, for whoever opens the next.
ALTER TABLE channel_connections ADD COLUMN resume TEXT;
-- Whether messages come by it now.
ALTER TABLE channel_connections ADD COLUMN is_connected BIGINT NOT NULL DEFAULT 0;
