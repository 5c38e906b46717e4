//! Memory: what agents and people want to be remembered, and how it is found again.
//!
//! - [`Memory`]: episodes, search over them, the graph of entities that they mention, and figures.
//! - `follower`: the search index of this daemon, which follows the rows.
//!
//! Invariants
//! - The rows are the truth, vectors included; the index is derived from them and may be lost.
//! - Whoever is told that an episode is stored finds it, in every mode and on every replica; whoever is
//!   told that one is forgotten finds nothing of it.
//! - An episode goes with everything that hangs on it, in one transaction: vectors, mentions, relations
//!   and figures. An entity is there as long as an episode mentions it.
//! - Figures change with what they count; asking for them never counts. What belongs to an agent that is deleted
//!   counts for nothing from then on, although its rows go later.
//! - What cannot be embedded now is stored without a vector, and gets it later.
//!
//! Deliberately absent: ranking and analysis (the search index), finding entities in text (a crate of
//! its own), and conversations, which belong to chat.

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
use agentd_engine::agents::OwnsAgentData;
use agentd_engine::engine::{Recall, TurnObserver};
use agentd_engine::tools::JoinsBuiltin;

use routes::routes;
use worker::{
    ConsolidateConversations, EmbedEpisodes, ExtractEntities, FlushIndex, ForgetEpisodes, OldChanges,
    RememberConversations, WarmIndex, WriteRecalls,
};

pub use check::{Disagreement, MemoryCheck};
pub use error::MemoryError;
pub use model::FROM_HOOKS;
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
                Binding::new::<dyn OwnsAgentData>(Arc::new(self.clone())),
                Binding::new::<dyn JoinsBuiltin>(Arc::new(MemoryTools::new(self.clone()))),
                Binding::new::<dyn TurnObserver>(Arc::new(self.clone())),
                Binding::new::<dyn Recall>(Arc::new(self.clone())),
            ],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Processes, self, async |memory, _| memory.close().await)],
        }
    }
}
