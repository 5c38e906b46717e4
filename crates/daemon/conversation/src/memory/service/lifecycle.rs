//! Construction and shutdown of memory, and the task that applies changed settings.

use std::sync::{Arc, Weak};

use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, NextDue};
use agentd_core::settings::Settings;
use agentd_engine::agents::Agents;
use agentd_engine::engine::Engine;
use agentd_inference::embedder::Embedder;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::{Inner, Memory};
use crate::memory::clustering::ClusteringCache;
use crate::memory::embedding::Embedding;
use crate::memory::follower::Follower;
use crate::memory::recall_queue::RecallQueue;
use crate::memory::source::ConversationSource;

/// Maximum number of turns that recall concurrently; others wait for a permit.
const MAX_CONCURRENT_RECALLS: usize = 8;

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
            clusterings: ClusteringCache::default(),
            embed_wake: Arc::default(),
            context,
            settings,
            agents,
            embedding,
            engine,
            source,
            recalling: Arc::new(Semaphore::new(MAX_CONCURRENT_RECALLS)),
            recalls: RecallQueue::default(),
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

    /// Applies changed settings immediately, until the daemon drains.
    fn follow_settings(&self) {
        let (inner, settings) = (Arc::downgrade(&self.0), self.0.settings.clone());
        let draining = self.context().draining.clone();
        let work = move || follow(inner.clone(), settings.watch(), draining.clone());
        self.context().supervise("memory.settings", work);
    }

    async fn apply_settings(&self) {
        if let Err(error) = self.auto_store_since().await {
            tracing::warn!(%error, "failed to record when memory was enabled");
        }
        *self.0.extract_again.lock() = None;
        for wake in [self.remember_wake(), self.consolidate_wake(), self.forget_wake(), self.extract_wake()] {
            wake.notify_one();
        }
    }

    /// Stores pending recalls and writes the index to disk, so that the next start has nothing to catch up on.
    pub async fn close(&self) {
        loop {
            match self.store_recalls().await {
                Ok(report) if report.has_more => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "failed to store recalls at shutdown");
                    break;
                }
            }
        }
        if let Err(error) = self.follower().shut_down().await {
            tracing::warn!(%error, "failed to write memory search index; the next start catches up");
        }
    }
}

async fn follow(inner: Weak<Inner>, mut changes: watch::Receiver<u64>, draining: CancellationToken) {
    let rules = || inner.upgrade().map(|inner| Memory(inner).rules());
    let mut before = rules();
    loop {
        tokio::select! {
            () = draining.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
        let now = rules();
        if now != before
            && let Some(inner) = inner.upgrade()
        {
            Memory(inner).apply_settings().await;
        }
        before = now;
    }
}
