-- The sender of each platform who decides approvals in its chats.
CREATE TABLE channel_owners (
    platform TEXT PRIMARY KEY NOT NULL,
    sender_id TEXT NOT NULL
);
INSERT INTO channel_owners (platform, sender_id)
SELECT platform, MIN(sender_id) FROM channel_senders AS candidate
WHERE NOT EXISTS (
    SELECT 1 FROM channel_senders AS earlier
    WHERE earlier.platform = candidate.platform AND earlier.approved_at < candidate.approved_at
)
GROUP BY platform;

-- Approvals that were requested in a chat, and the message with their buttons.
CREATE TABLE channel_approvals (
    approval_id TEXT PRIMARY KEY NOT NULL,
    platform TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    -- Empty: none.
    thread TEXT NOT NULL,
    -- What a reply names the approval by.
    code BIGINT NOT NULL,
    -- Whether the message shows the whole input; otherwise it can only be rejected in the chat.
    can_approve BIGINT NOT NULL,
    -- NULL until the message is sent.
    message_id TEXT,
    UNIQUE (platform, chat_id, thread, code)
);

ALTER TABLE channel_states ADD COLUMN pairing_limit_noted_at BIGINT;
