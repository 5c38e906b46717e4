-- What somebody said whom the owner does not know, and the answers to it.
ALTER TABLE messages ADD COLUMN is_untrusted BIGINT NOT NULL DEFAULT 0;
