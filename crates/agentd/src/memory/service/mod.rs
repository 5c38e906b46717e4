//! What can be done with memory.

mod clusters;
mod create;
mod forget;
mod read;
mod search;

use std::sync::Arc;

use agentd_inference::embedder::Embedder;
use tokio::sync::Notify;

pub(super) use clusters::Cluster;
pub(super) use create::CreateEpisode;
pub(super) use read::{EpisodeFilter, Related, Statistics};
pub(super) use search::{Search, SearchHit, SearchMode, parse_bound};

use super::clustering::Clusterings;
use super::embedding::Embedding;
use super::error::MemoryError;
use super::follower::Follower;
use super::settings::MemorySettings;
use crate::agents::{AgentId, Agents};
use crate::ground::Ground;
use crate::settings::Settings;

struct Inner {
    ground: Ground,
    settings: Settings,
    agents: Agents,
    embedding: Embedding,
    follower: Follower,
    clusterings: Clusterings,
    /// Wakes what embeds episodes that have no vectors yet.
    embed_wake: Arc<Notify>,
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
    #[must_use]
    pub fn new(ground: Ground, settings: Settings, agents: Agents, embedder: Arc<dyn Embedder>) -> Self {
        let embedding = Embedding::new(embedder);
        Self(Arc::new(Inner {
            follower: Follower::new(ground.clone(), embedding.clone()),
            clusterings: Clusterings::default(),
            embed_wake: Arc::default(),
            ground,
            settings,
            agents,
            embedding,
        }))
    }

    pub(super) fn ground(&self) -> &Ground {
        &self.0.ground
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

    pub(super) fn rules(&self) -> Arc<MemorySettings> {
        self.0.settings.section::<MemorySettings>()
    }

    /// Writes the index to disk, so that the next start has nothing to catch up on.
    pub async fn close(&self) {
        if let Err(error) = self.0.follower.shut_down().await {
            tracing::warn!(%error, "the search index of memory could not be written; the next start catches up");
        }
    }

    /// The id of an agent that is there.
    async fn agent(&self, name_or_id: &str) -> Result<AgentId, MemoryError> {
        Ok(self.0.agents.get(name_or_id).await?.id.clone())
    }
}
