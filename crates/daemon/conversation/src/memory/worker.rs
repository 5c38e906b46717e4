//! What memory does in the background: it keeps the index on disk, gives meanings to episodes that have none of
//! the present model, remembers what was said, counts what was recalled, and forgets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, PurgesData, Retention, Worker, WorkerError, WorkerReport};
use agentd_inference::LocalErrorCode;
use agentd_store::Tx;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::embedding::TAGGER_VERSION;
use super::error::MemoryError;
use super::follower::MEMORY;
use super::service::Memory;
use super::settings::EntityExtraction;
use super::store::entities::{self, Found};
use super::store::{EPISODES, counts, episodes};

/// Writes what the index holds in memory to disk, so that a start has little to catch up on.
#[derive(Debug)]
pub(super) struct FlushIndex(pub Memory);

impl Worker for FlushIndex {
    fn name(&self) -> &'static str {
        "memory.flush"
    }

    fn description(&self) -> &'static str {
        "Saves the search index to disk."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // What changes the index is written first, and what is not on disk is followed again after a start.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(WorkerReport::done(u64::from(self.0.follower().flush().await?))) }.boxed()
    }
}

/// Makes the index ready after a start, so that the first search does not wait for that; daemons that
/// remember nothing have nothing to make ready.
#[derive(Debug)]
pub(super) struct WarmIndex(pub Memory);

impl Worker for WarmIndex {
    fn name(&self) -> &'static str {
        "memory.warm"
    }

    fn description(&self) -> &'static str {
        "Loads the search index before the first search."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(24 * 60 * 60)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async {
            let remembered = counts::count_episodes(&mut self.0.context().db.read().await?, None).await?;
            if remembered > 0 {
                self.0.follower().warm().await?;
            }
            Ok(WorkerReport::done(u64::from(remembered > 0)))
        }
        .boxed()
    }
}

/// Changes are kept for so long; an index that has slept for longer is built anew.
const CHANGES_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const PRUNED_AT_ONCE: u32 = 1_000;

/// Changes that every index should have followed by now.
#[derive(Debug)]
pub(super) struct OldChanges(pub Memory);

impl PurgesData for OldChanges {
    const WORKER: &'static str = "memory.prune_changes";
    const DESCRIPTION: &'static str = "Deletes old change records of memory.";
    const RETENTION: &'static [Retention] = &[Retention { what: "Change records of memory", kept: CHANGES_KEPT }];
    const INTERVAL: Duration = Duration::from_secs(60 * 60);

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.0.context();
        let before = context.clock.now() - CHANGES_KEPT;
        let prune = async move |tx: &mut Tx| tx.prune_changes(EPISODES, before, PRUNED_AT_ONCE).await;
        Ok(WorkerReport::batch(context.db.write(prune).await?, PRUNED_AT_ONCE))
    }
}

/// Episodes that are embedded at once.
const EMBEDDED_AT_ONCE: u32 = 64;

/// Embeds episodes that were stored while no model was there, or have vectors of another one.
///
/// Idempotent: an episode that two daemons embed gets the same vectors twice.
#[derive(Debug)]
pub(super) struct EmbedEpisodes {
    memory: Memory,
    has_model: AtomicBool,
}

impl Worker for EmbedEpisodes {
    fn name(&self) -> &'static str {
        "memory.embed"
    }

    fn description(&self) -> &'static str {
        "Computes embeddings for new episodes."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.memory.embed_wake())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Episodes are written; a model is put there by somebody who tells nobody.
        self.has_model.load(Ordering::Relaxed).then_some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(self.run().await?) }.boxed()
    }
}

impl EmbedEpisodes {
    #[must_use]
    pub(super) fn new(memory: Memory) -> Self {
        Self { memory, has_model: AtomicBool::new(false) }
    }

    async fn run(&self) -> Result<WorkerReport, MemoryError> {
        let memory = &self.memory;
        let model = memory.embedding().model_id().await;
        self.has_model.store(model.is_some(), Ordering::Relaxed);
        let Some(model) = model else { return Ok(WorkerReport::IDLE) };
        memory.follower().check_model().await?;
        let mut read = memory.context().db.read().await?;
        let waiting = episodes::without_vectors_of(&mut read, &model, EMBEDDED_AT_ONCE).await?;
        drop(read);
        if waiting.is_empty() {
            return Ok(WorkerReport::IDLE);
        }
        let (numbers, texts): (Vec<i64>, Vec<String>) = waiting.into_iter().unzip();
        let contents = texts.clone();
        let embedded = match memory.embedding().texts(texts).await {
            Ok(embedded) => embedded,
            Err(error) if matches!(error.code, LocalErrorCode::ModelMissing | LocalErrorCode::UnsupportedCpu) => {
                return Ok(WorkerReport::IDLE);
            }
            Err(error) => return Err(MemoryError::NoEmbedder { reason: error.message }),
        };
        let items = numbers.len();
        let finds_entities = memory.rules().entity_extraction != EntityExtraction::Off;
        let found: Vec<Option<Found>> = embedded
            .iter()
            .zip(&contents)
            .map(|(embedded, content)| finds_entities.then(|| embedded.find_entities(content)).flatten())
            .collect();
        let store = async move |tx: &mut Tx| {
            for ((number, embedded), found) in numbers.iter().zip(&embedded).zip(&found) {
                if !episodes::exists(tx, *number).await? {
                    continue;
                }
                episodes::replace_vectors(tx, *number, &embedded.model, &embedded.vectors).await?;
                // Nothing changes where they were found when it was stored.
                if let Some(found) = found {
                    entities::replace_found(tx, *number, TAGGER_VERSION, found).await?;
                }
                tx.log_change(EPISODES, Some(*number)).await?;
            }
            tx.touch(MEMORY);
            Ok::<_, MemoryError>(())
        };
        memory.context().db.write(store).await?;
        memory.settle().await;
        Ok(WorkerReport::more(items))
    }
}

/// Declares a worker that does one thing of [`Memory`].
macro_rules! worker {
    ($(#[$meta:meta])* $type:ident, $name:literal, $description:literal, $seconds:expr, $wake:expr, $idle_until:expr, $work:ident) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub(super) struct $type(pub Memory);

        impl Worker for $type {
            fn name(&self) -> &'static str {
                $name
            }

            fn description(&self) -> &'static str {
                $description
            }

            fn interval(&self) -> Duration {
                Duration::from_secs($seconds)
            }

            fn wake(&self) -> Option<Arc<Notify>> {
                let wake: Option<fn(&Memory) -> Arc<Notify>> = $wake;
                wake.map(|wake| wake(&self.0))
            }

            fn idle_until(&self) -> Option<Timestamp> {
                let idle_until: fn(&Memory) -> Option<Timestamp> = $idle_until;
                idle_until(&self.0)
            }

            fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
                async { Ok(self.0.$work().await?) }.boxed()
            }
        }
    };
}

worker!(
    /// Counts what was recalled, and what answers made use of. Whoever notes that wakes it.
    WriteRecalls, "memory.recalls", "Stores which memories were recalled and used.", 10, Some(Memory::recalls_wake), |_| Some(NextDue::NEVER), store_recalls
);
worker!(
    /// Remembers what was said in turns that have ended; ends are written.
    RememberConversations, "memory.remember", "Stores episodes from finished turns.", 60, Some(Memory::remember_wake), |_| Some(NextDue::NEVER),
    follow_conversations
);
worker!(
    /// Goes through all conversations from time to time.
    ConsolidateConversations, "memory.consolidate", "Reviews all conversations for what was not stored yet.", 60, Some(Memory::consolidate_wake),
    |memory| Some(memory.consolidation_due()),
    consolidate_when_due
);
worker!(
    /// Forgets what the settings say is to be forgotten.
    ForgetEpisodes, "memory.forget", "Deletes episodes that the settings say to forget.", 60 * 10, Some(Memory::forget_wake), |_| None, forget_by_rules
);
worker!(
    /// Lets agents' models find entities, where that is wanted.
    ExtractEntities, "memory.extract", "Extracts entities from episodes with a model.", 60, Some(Memory::extract_wake), |memory| Some(memory.extraction_due()),
    extract_by_model
);
