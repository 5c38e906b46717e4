//! Operations of memory.

mod ask;
mod clusters;
mod create;
mod extract;
mod follow;
mod forget;
mod insight;
mod lifecycle;
mod read;
mod recall;
mod remember;
mod search;
mod toggles;
mod work;

use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_core::runtime::{AppContext, NextDue};
use agentd_core::settings::Settings;
use agentd_engine::agents::{AgentId, Agents};
use agentd_engine::engine::Engine;
use tokio::sync::{Notify, Semaphore};

pub(super) use super::store::entities::Relation;
pub(super) use clusters::Cluster;
pub use create::Remember;
pub(super) use read::{EpisodeFilter, Related, Statistics};
pub(super) use search::{Search, SearchHit, SearchMode};

use super::clustering::ClusteringCache;
use super::embedding::Embedding;
use super::error::MemoryError;
use super::followed::Followed;
use super::follower::Follower;
use super::recall_queue::RecallQueue;
use super::settings::MemorySettings;
use super::source::ConversationSource;

struct Inner {
    context: AppContext,
    settings: Settings,
    agents: Agents,
    embedding: Embedding,
    follower: Follower,
    clusterings: ClusteringCache,
    /// Wakes the worker that embeds episodes.
    embed_wake: Arc<Notify>,
    engine: Engine,
    source: Arc<dyn ConversationSource>,
    /// Permits for turns that recall.
    recalling: Arc<Semaphore>,
    recalls: RecallQueue,
    /// Wakes the worker that stores episodes from finished turns.
    remember_wake: Arc<Notify>,
    /// Wakes the worker that reviews all conversations.
    consolidate_wake: Arc<Notify>,
    /// Wakes the worker that deletes episodes according to the settings.
    forget_wake: Arc<Notify>,
    /// Wakes the worker that extracts entities with models.
    extract_wake: Arc<Notify>,
    /// Earliest time of the next extraction after a model failed.
    extract_again: parking_lot::Mutex<Option<Timestamp>>,
    consolidation_due: NextDue,
    followed: parking_lot::Mutex<Followed>,
}

/// Service for episodes, search and entities. Cheap to clone.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Memory {
    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(super) fn embedding(&self) -> &Embedding {
        &self.0.embedding
    }

    pub(super) fn follower(&self) -> &Follower {
        &self.0.follower
    }

    pub(super) fn clusterings(&self) -> &ClusteringCache {
        &self.0.clusterings
    }

    pub(super) fn embed_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.embed_wake)
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(super) fn source(&self) -> &dyn ConversationSource {
        &*self.0.source
    }

    pub(super) fn recalls_wake(&self) -> Arc<Notify> {
        self.0.recalls.wake()
    }

    pub(super) fn remember_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.remember_wake)
    }

    pub(super) fn consolidate_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.consolidate_wake)
    }

    /// Returns when conversations are reviewed next.
    pub(super) fn consolidation_due(&self) -> Timestamp {
        self.0.consolidation_due.at()
    }

    /// Returns when extraction by models resumes.
    pub(super) fn extraction_due(&self) -> Timestamp {
        self.0.extract_again.lock().unwrap_or(NextDue::NEVER)
    }

    pub(super) fn forget_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.forget_wake)
    }

    pub(super) fn extract_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.extract_wake)
    }

    pub(super) fn rules(&self) -> Arc<MemorySettings> {
        self.0.settings.section::<MemorySettings>()
    }

    /// Returns the id of an existing agent.
    async fn agent(&self, name_or_id: &str) -> Result<AgentId, MemoryError> {
        Ok(self.0.agents.get(name_or_id).await?.id.clone())
    }
}
