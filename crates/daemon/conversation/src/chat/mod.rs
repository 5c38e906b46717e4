//! Conversations: what owner and agent said to each other, and sending more of it.
//!
//! Invariants
//! - A message and what it starts are one transaction: a user's message never stands without the
//!   reply that answers it, `running` at first, and `message_count` is always right.
//! - Messages have one order, their position; a reply stands right behind its question.
//! - One reply at a time is written in a conversation. A second message is refused (409,
//!   `turn_in_progress`, naming the session to follow or cancel); nothing is queued unseen.
//! - A reply is prompted by exactly the messages that stand before it: if they change between
//!   reading and storing, they are read again.
//! - A deleted conversation ends its reply and is gone at once; its rows, logs included, follow.
//!
//! A title is the owner's once it was set; before that it follows the first message.
//! Deliberately absent: running the model (the engine does), approvals, and what is
//! remembered of what was said.

mod error;
mod message_parts;
mod model;
mod purge;
mod recent;
mod remembered;
mod routes;
mod service;
mod store;

use std::sync::Arc;

use agentd_core::parts::DomainParts;
use agentd_core::runtime::{MetricList, PurgeWorker};
use agentd_engine::engine::TurnParts;

use purge::PurgeConversations;

pub use error::ChatError;
pub use model::{Conversation, ConversationId, ExecutionMode, Message, MessageId, MessageStatus, Mode, Role};
pub use routes::routes;
pub use service::{CHANNEL_TRANSCRIPT, ChannelTurn, Chat, CreateConversation, SendMessage, StartedReply};

impl Chat {
    /// What the daemon gets of this domain.
    #[must_use]
    pub fn parts(&self) -> (DomainParts, TurnParts) {
        let domain = DomainParts {
            workers: vec![Box::new(PurgeWorker(PurgeConversations(self.clone())))],
            metrics: MetricList::default(),
            portable: Vec::new(),
            finders: Vec::new(),
            shutdown: Vec::new(),
        };
        let turns = TurnParts {
            agent_data: vec![Arc::new(self.clone())],
            project_names: vec![Arc::new(self.clone())],
            tools: Vec::new(),
            builtin_tools: Vec::new(),
            sinks: vec![Arc::new(self.clone())],
            observers: Vec::new(),
            deciders: Vec::new(),
        };
        (domain, turns)
    }
}
