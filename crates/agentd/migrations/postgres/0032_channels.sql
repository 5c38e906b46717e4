-- Messages of chat platforms. One row a message, however often its platform sends it.
CREATE TABLE channel_messages (
    id TEXT PRIMARY KEY NOT NULL,
    platform TEXT NOT NULL,
    external_id TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    -- Whether the owner let the sender in, or named them; what others write is untrusted.
    is_trusted BIGINT NOT NULL,
    chat_id TEXT NOT NULL,
    -- Empty: none.
    thread TEXT NOT NULL,
    is_group BIGINT NOT NULL,
    content TEXT NOT NULL,
    -- JSON: the names of files.
    attachments TEXT NOT NULL,
    -- JSON: where an answer goes.
    reply_to TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'answered', 'failed', 'dropped')),
    agent_id TEXT,
    conversation_id TEXT,
    session_id TEXT,
    -- The message of the conversation that is the answer.
    message_id TEXT,
    error TEXT,
    received_at BIGINT NOT NULL,
    completed_at BIGINT,
    UNIQUE (platform, external_id)
);
CREATE INDEX channel_messages_session ON channel_messages (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX channel_messages_open ON channel_messages (platform, chat_id, thread, id) WHERE status IN ('pending', 'running');
CREATE INDEX channel_messages_untrusted ON channel_messages (platform, chat_id, thread) WHERE is_trusted = 0;
CREATE INDEX channel_messages_agent ON channel_messages (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX channel_messages_age ON channel_messages (received_at);

-- Which conversation goes on in a chat or a thread.
CREATE TABLE channel_conversations (
    platform TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    thread TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (platform, chat_id, thread)
);
CREATE INDEX channel_conversations_conversation ON channel_conversations (conversation_id);

-- Strangers who asked to be let in.
CREATE TABLE channel_pairings (
    platform TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    code TEXT NOT NULL,
    -- JSON: where they are told.
    reply_to TEXT NOT NULL,
    -- The owner said no; no other code is given until it would have ended.
    is_refused BIGINT NOT NULL,
    requested_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (platform, sender_id),
    UNIQUE (platform, code)
);

-- Those whom the owner let in.
CREATE TABLE channel_senders (
    platform TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    approved_at BIGINT NOT NULL,
    PRIMARY KEY (platform, sender_id)
);

-- What was last heard of a platform, and what went wrong.
CREATE TABLE channel_states (
    platform TEXT PRIMARY KEY NOT NULL,
    last_received_at BIGINT,
    last_error TEXT,
    last_error_at BIGINT
);

-- Which daemon holds the connection to a platform, until when.
CREATE TABLE channel_connections (
    platform TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    lease_until BIGINT NOT NULL
);

-- Where in a chat a message goes, and what can be pressed under it: JSON, of messages to chat platforms.
ALTER TABLE notifications ADD COLUMN details TEXT;
