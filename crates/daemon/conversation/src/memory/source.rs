//! Interface through which memory reads conversations.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::StoreError;
use futures_util::future::BoxFuture;

/// Conversation that memory reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationRef {
    pub id: String,
    pub agent_id: AgentId,
    pub title: String,
    /// Increases with every change of its messages.
    pub revision: u64,
    pub updated_at: Timestamp,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    Owner,
    Agent,
    /// An unknown sender, through a channel, a webhook or a hook. Such messages are not remembered.
    UnknownSender,
}

/// Message of a finished turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    /// The message's id.
    pub id: String,
    pub position: u64,
    pub speaker: Speaker,
    /// Text of the message, truncated if it is long.
    pub text: String,
    /// Tools that an agent used for it, without duplicates.
    pub tools: Vec<String>,
    /// Whether it follows from untrusted tool output.
    pub is_untrusted: bool,
    /// Whether it was completed rather than aborted.
    pub is_complete: bool,
    pub at: Timestamp,
}

/// Page of utterances of a conversation, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UtterancePage {
    pub utterances: Vec<Utterance>,
    /// Whether no further finished messages follow.
    pub is_last: bool,
}

/// Store of conversations.
pub trait ConversationSource: Send + Sync {
    /// Returns up to `limit` conversations that changed at `since` or later, ordered by change time and id, after
    /// `(since, after)`.
    fn changed_since<'t>(
        &'t self,
        since: Timestamp,
        after: &'t str,
        limit: u32,
    ) -> BoxFuture<'t, Result<Vec<ConversationRef>, StoreError>>;

    /// Returns up to `limit` messages after a position, in order. A page of very long messages is shorter but never
    /// empty. Exchanges whose reply is still being written are excluded.
    fn utterances_after<'t>(
        &'t self,
        conversation: &'t str,
        position: u64,
        limit: u32,
    ) -> BoxFuture<'t, Result<UtterancePage, StoreError>>;

    /// Returns those of `conversations` that no longer exist.
    fn missing<'t>(&'t self, conversations: &'t [String]) -> BoxFuture<'t, Result<Vec<String>, StoreError>>;
}
