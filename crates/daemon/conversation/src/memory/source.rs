//! Conversations, as memory sees them: what it remembers is said there.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::StoreError;
use futures_util::future::BoxFuture;

/// A conversation that memory reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationRef {
    pub id: String,
    pub agent_id: AgentId,
    pub title: String,
    /// Rises with every change of what was said.
    pub revision: u64,
    pub updated_at: Timestamp,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    Owner,
    Agent,
    /// Somebody else, through a channel, a webhook or a hook. What strangers say is not remembered.
    Stranger,
}

/// What was said in one message of a turn that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    /// The message's id.
    pub id: String,
    pub position: u64,
    pub speaker: Speaker,
    /// The beginning of it, where it is long.
    pub text: String,
    /// What an agent used for it, each once.
    pub tools: Vec<String>,
    /// It follows from text that others wrote, which those tools answered.
    pub is_untrusted: bool,
    /// It was not broken off.
    pub is_complete: bool,
    pub at: Timestamp,
}

/// Some utterances of a conversation, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UtterancePage {
    pub utterances: Vec<Utterance>,
    /// Nothing follows that is over.
    pub is_last: bool,
}

/// Who keeps conversations.
pub trait ConversationSource: Send + Sync {
    /// Conversations that changed at `since` or later, in the order of that and of their ids, those after
    /// `(since, after)`; at most `limit`.
    fn changed_since<'t>(
        &'t self,
        since: Timestamp,
        after: &'t str,
        limit: u32,
    ) -> BoxFuture<'t, Result<Vec<ConversationRef>, StoreError>>;

    /// What was said in a conversation after a position, in order, at most `limit` messages and fewer where
    /// they are very long, but never none. An exchange whose reply is still being written is not among them.
    fn utterances_after<'t>(
        &'t self,
        conversation: &'t str,
        position: u64,
        limit: u32,
    ) -> BoxFuture<'t, Result<UtterancePage, StoreError>>;

    /// Those of `conversations` that are not there any more.
    fn missing<'t>(&'t self, conversations: &'t [String]) -> BoxFuture<'t, Result<Vec<String>, StoreError>>;
}
