//! What can be done with memory.

mod ask;
mod clusters;
mod create;
mod extract;
mod follow;
mod forget;
mod insight;
mod read;
mod recall;
mod remember;
mod search;
mod toggles;
mod work;

use std::collections::VecDeque;
use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, NextDue};
use agentd_core::settings::Settings;
use agentd_engine::agents::{AgentId, Agents};
use agentd_engine::engine::Engine;
use agentd_inference::embedder::Embedder;
use recall::Noted;
use tokio::sync::{Notify, Semaphore};

pub(super) use super::store::entities::Relation;
pub(super) use clusters::Cluster;
pub(super) use create::CreateEpisode;
pub use create::Remember;
pub(super) use read::{EpisodeFilter, Related, Statistics};
pub(super) use search::{Search, SearchHit, SearchMode};

use super::clustering::Clusterings;
use super::embedding::Embedding;
use super::error::MemoryError;
use super::follower::Follower;
use super::settings::MemorySettings;
use super::source::ConversationSource;

struct Inner {
    context: AppContext,
    settings: Settings,
    agents: Agents,
    embedding: Embedding,
    follower: Follower,
    clusterings: Clusterings,
    /// Wakes what embeds episodes that have no vectors yet.
    embed_wake: Arc<Notify>,
    engine: Engine,
    source: Arc<dyn ConversationSource>,
    /// Permits for turns that recall.
    recalling: Arc<Semaphore>,
    /// What recalling came to and is not written down yet.
    noted: parking_lot::Mutex<VecDeque<Noted>>,
    noted_wake: Arc<Notify>,
    /// Wakes what follows turns that end.
    remember_wake: Arc<Notify>,
    /// Wakes what goes through all conversations.
    consolidate_wake: Arc<Notify>,
    /// Wakes what forgets by the settings.
    forget_wake: Arc<Notify>,
    /// Wakes what lets models find entities.
    extract_wake: Arc<Notify>,
    /// Models that did not answer are not asked again before.
    extract_again: parking_lot::Mutex<Option<Timestamp>>,
    consolidation_due: NextDue,
    /// How far the turns that ended are followed.
    followed: parking_lot::Mutex<follow::Followed>,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Memory {
    pub fn new(
        context: AppContext,
        settings: Settings,
        agents: Agents,
        engine: Engine,
        source: Arc<dyn ConversationSource>,
        embedder: Arc<dyn Embedder>,
    ) -> Detached<Self> {
        let embedding = Embedding::new(embedder, context.db.clone());
        let memory = Self(Arc::new(Inner {
            follower: Follower::new(context.clone(), embedding.clone()),
            clusterings: Clusterings::default(),
            embed_wake: Arc::default(),
            context,
            settings,
            agents,
            embedding,
            engine,
            source,
            recalling: Arc::new(Semaphore::new(recall::AT_ONCE)),
            noted: parking_lot::Mutex::default(),
            noted_wake: Arc::default(),
            remember_wake: Arc::default(),
            consolidate_wake: Arc::default(),
            forget_wake: Arc::default(),
            extract_wake: Arc::default(),
            extract_again: parking_lot::Mutex::default(),
            consolidation_due: NextDue::default(),
            followed: parking_lot::Mutex::default(),
        }));
        memory.follow_settings();
        Detached::new(memory)
    }

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

    pub(super) fn clusterings(&self) -> &Clusterings {
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

    pub(super) fn noted_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.noted_wake)
    }

    pub(super) fn remember_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.remember_wake)
    }

    pub(super) fn consolidate_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.consolidate_wake)
    }

    /// When conversations are to be gone through again.
    pub(super) fn consolidation_due(&self) -> Timestamp {
        self.0.consolidation_due.at()
    }

    /// Until then models that did not answer are left alone.
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

    /// Writes down what was recalled, and the index to disk, so that the next start has nothing to catch up on.
    pub async fn close(&self) {
        loop {
            match self.write_noted().await {
                Ok(report) if report.has_more => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "what agents recalled last is not counted");
                    break;
                }
            }
        }
        if let Err(error) = self.0.follower.shut_down().await {
            tracing::warn!(%error, "the search index of memory could not be written; the next start catches up");
        }
    }

    /// The id of an agent that is there.
    async fn agent(&self, name_or_id: &str) -> Result<AgentId, MemoryError> {
        Ok(self.0.agents.get(name_or_id).await?.id.clone())
    }
}
