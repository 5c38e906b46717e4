//! Memory: stores what agents and users want to be remembered, and finds it again.
//!
//! - [`Memory`]: episodes, search over them, the graph of entities they mention, and statistics.
//! - `follower`: the search index of this daemon, which follows the rows.
//!
//! Invariants
//! - The rows, including vectors, are the source of truth; the index is derived from them and can be rebuilt.
//! - An acknowledged episode is found in every search mode on every replica; an acknowledged deletion is final.
//! - An episode is deleted together with its vectors, mentions, relations and counters, in one transaction. An entity
//!   exists as long as an episode mentions it.
//! - Counters change in the transaction that changes what they count; reading them never counts rows. Data of a deleted
//!   agent is excluded immediately, although its rows are purged later.
//! - An episode that cannot be embedded is stored without a vector, which is added later.
//!
//! Not part of this module: ranking and text analysis (the search index), entity extraction (its own crate), and
//! conversations, which belong to chat.

mod check;
mod clustering;
mod embedding;
mod error;
mod followed;
mod follower;
mod health;
mod jobs;
mod model;
mod recall_queue;
mod relevance;
mod routes;
mod selection;
mod service;
mod settings;
mod source;
mod store;
mod tools;
mod worker;

use std::sync::Arc;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, MetricList, PurgeWorker};
use agentd_engine::agents::AgentDataOwner;
use agentd_engine::engine::{Recall, TurnObserver};
use agentd_engine::tools::BuiltinToolProvider;

use routes::routes;
use worker::{
    ConsolidateConversations, EmbedEpisodes, ExtractEntities, FlushIndex, ForgetEpisodes, OldChanges,
    RememberConversations, WarmIndex, WriteRecalls,
};

pub use check::{Disagreement, MemoryCheck};
pub use error::MemoryError;
pub use model::HOOK_SOURCE;
pub use routes::local_routes;
pub use service::{Memory, Remember};
pub use settings::MemorySettings;
pub use source::{ConversationRef, ConversationSource, Speaker, Utterance, UtterancePage};
pub use tools::MemoryTools;

impl Domain for Memory {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![
                Box::new(WarmIndex(self.clone())),
                Box::new(FlushIndex(self.clone())),
                Box::new(EmbedEpisodes::new(self.clone())),
                Box::new(PurgeWorker(OldChanges(self.clone()))),
                Box::new(WriteRecalls(self.clone())),
                Box::new(RememberConversations(self.clone())),
                Box::new(ConsolidateConversations(self.clone())),
                Box::new(ForgetEpisodes(self.clone())),
                Box::new(ExtractEntities(self.clone())),
            ],
            metrics: MetricList::default(),
            bindings: vec![
                Binding::new::<dyn AgentDataOwner>(Arc::new(self.clone())),
                Binding::new::<dyn BuiltinToolProvider>(Arc::new(MemoryTools::new(self.clone()))),
                Binding::new::<dyn TurnObserver>(Arc::new(self.clone())),
                Binding::new::<dyn Recall>(Arc::new(self.clone())),
            ],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Processes, self, async |memory, _| memory.close().await)],
        }
    }
}
