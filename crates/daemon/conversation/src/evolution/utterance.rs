//! Interface through which evolution reads messages.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::StoreError;
use futures_util::future::BoxFuture;

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    Owner,
    Agent,
    /// An unknown sender, through a channel, a webhook or a hook.
    UnknownSender,
}

/// Message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    /// Identifies the conversation.
    pub conversation_id: String,
    pub author: Author,
    /// Text of the message, truncated if it is long.
    pub text: String,
    pub at: Timestamp,
}

/// Store of conversations.
pub trait RecentUtterances: Send + Sync {
    /// Returns the newest messages with an agent after `since`, up to about `max_characters`, grouped by conversation
    /// and oldest first in each.
    fn newest<'t>(
        &'t self,
        agent: &'t AgentId,
        since: Option<Timestamp>,
        max_characters: usize,
    ) -> BoxFuture<'t, Result<Vec<Utterance>, StoreError>>;
}
