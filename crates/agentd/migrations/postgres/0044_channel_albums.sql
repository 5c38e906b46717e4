-- Words of others that a message forwards or answers; empty: none.
ALTER TABLE channel_messages ADD COLUMN context TEXT NOT NULL DEFAULT '';
-- The album that a message is a part of, until its parts are joined.
ALTER TABLE channel_messages ADD COLUMN album TEXT;
-- A part of an album in a group may mention nobody; another part of the same album does.
ALTER TABLE channel_messages ADD COLUMN is_addressed BIGINT NOT NULL DEFAULT 1;
CREATE INDEX channel_messages_album ON channel_messages (platform, chat_id, album) WHERE album IS NOT NULL;
