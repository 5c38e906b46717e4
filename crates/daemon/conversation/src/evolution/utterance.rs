//! What an agent learns from.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::StoreError;
use futures_util::future::BoxFuture;

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    Owner,
    Agent,
    /// Somebody else, through a channel, a webhook or a hook.
    Stranger,
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    /// The same for everything in one conversation.
    pub conversation_id: String,
    pub author: Author,
    /// The beginning of it, where it is long.
    pub text: String,
    pub at: Timestamp,
}

/// Who keeps conversations.
pub trait RecentUtterances: Send + Sync {
    /// The newest of what was said with an agent after `since`, about `max_characters` of it at most,
    /// conversation by conversation, and oldest first within each.
    fn newest<'t>(
        &'t self,
        agent: &'t AgentId,
        since: Option<Timestamp>,
        max_characters: usize,
    ) -> BoxFuture<'t, Result<Vec<Utterance>, StoreError>>;
}
