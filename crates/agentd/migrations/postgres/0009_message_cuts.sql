-- Messages that were cut off and are still to be purged: those of a conversation whose position is
-- beyond after_position, up to through_position. They are out of sight from the commit of this row.
CREATE TABLE message_cuts (
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    after_position BIGINT NOT NULL,
    through_position BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, after_position, through_position)
);
