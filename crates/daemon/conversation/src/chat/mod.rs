//! Chat: conversations between the owner and an agent, and sending messages in them.
//!
//! Invariants
//! - A user's message and its reply, initially `running`, are stored in one transaction. `message_count` is always
//!   exact.
//! - Messages are totally ordered by position; a reply directly follows its question.
//! - At most one reply is written per conversation at a time. A second message is rejected with 409
//!   (`turn_in_progress`), which names the session to follow or cancel. Messages are never queued.
//! - A reply is prompted by exactly the messages before it. If they change between reading and storing, they are read
//!   again.
//! - Deleting a conversation ends its reply and hides it immediately; its rows and logs are purged later.
//!
//! The title follows the first message until the owner sets one.
//! Not part of this module: running the model (the engine does that), approvals, and memory.

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
use agentd_engine::agents::AgentDataOwner;
use agentd_engine::engine::TurnSink;
use agentd_engine::projects::ProjectReferences;

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
                Binding::new::<dyn AgentDataOwner>(Arc::new(self.clone())),
                Binding::new::<dyn ProjectReferences>(Arc::new(self.clone())),
                Binding::new::<dyn TurnSink>(Arc::new(self.clone())),
            ],
            shutdown: Vec::new(),
        }
    }
}
