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

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::{Binding, MetricList, PurgeWorker};
use agentd_engine::agents::OwnsAgentData;
use agentd_engine::engine::TurnSink;
use agentd_engine::projects::NamesProjects;

use purge::PurgeConversations;
use routes::routes;

pub use error::ChatError;
pub use model::{Conversation, ConversationId, ExecutionMode, Message, MessageId, MessageStatus, Mode, Role};
pub use service::{CHANNEL_TRANSCRIPT, ChannelTurn, Chat, CreateConversation, SendMessage, StartedReply};

impl Domain for Chat {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(PurgeWorker(PurgeConversations(self.clone())))],
            metrics: MetricList::default(),
            bindings: vec![
                Binding::new::<dyn OwnsAgentData>(Arc::new(self.clone())),
                Binding::new::<dyn NamesProjects>(Arc::new(self.clone())),
                Binding::new::<dyn TurnSink>(Arc::new(self.clone())),
            ],
            shutdown: Vec::new(),
        }
    }
}
