//! Background workers of memory: they flush and warm the index, embed episodes, store episodes from conversations,
//! count recalls, extract entities and delete expired episodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, PurgeTask, Retention, Worker, WorkerError, WorkerReport};
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
use super::store::entities::{self, ExtractedEntities};
use super::store::{EPISODES, counts, episodes};

/// Writes the in-memory part of the index to disk, so that the next start has little to catch up on.
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
        // Changes to the index are recorded in the database first; those not on disk are followed again after a start.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(WorkerReport::done(u64::from(self.0.follower().flush().await?))) }.boxed()
    }
}

/// Warms the index after a start so that the first search does not wait. Skipped if nothing is stored.
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

/// Retention of change records. An older index is rebuilt.
const CHANGE_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const PRUNE_BATCH_SIZE: u32 = 1_000;

/// Deletes change records that every index should have followed.
#[derive(Debug)]
pub(super) struct OldChanges(pub Memory);

impl PurgeTask for OldChanges {
    const WORKER: &'static str = "memory.prune_changes";
    const DESCRIPTION: &'static str = "Deletes old change records of memory.";
    const RETENTION: &'static [Retention] = &[Retention { what: "Change records of memory", kept: CHANGE_RETENTION }];
    const INTERVAL: Duration = Duration::from_secs(60 * 60);

    async fn purge_batch(&self) -> Result<WorkerReport, WorkerError> {
        let context = self.0.context();
        let before = context.clock.now() - CHANGE_RETENTION;
        let prune = async move |tx: &mut Tx| tx.prune_changes(EPISODES, before, PRUNE_BATCH_SIZE).await;
        Ok(WorkerReport::batch(context.db.write(prune).await?, PRUNE_BATCH_SIZE))
    }
}

/// Number of episodes embedded per run.
const EMBED_BATCH_SIZE: u32 = 64;

/// Embeds episodes that have no vectors of the current model.
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
        // New episodes wake the worker, but installing a model does not.
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
        let waiting = episodes::list_without_vectors(&mut read, &model, EMBED_BATCH_SIZE).await?;
        drop(read);
        if waiting.is_empty() {
            return Ok(WorkerReport::IDLE);
        }
        let (numbers, texts): (Vec<i64>, Vec<String>) = waiting.into_iter().unzip();
        let contents = texts.clone();
        let embedded = match memory.embedding().embed_texts(texts).await {
            Ok(embedded) => embedded,
            Err(error) if matches!(error.code, LocalErrorCode::ModelMissing | LocalErrorCode::UnsupportedCpu) => {
                return Ok(WorkerReport::IDLE);
            }
            Err(error) => return Err(MemoryError::NoEmbedder { reason: error.message }),
        };
        let items = numbers.len();
        let finds_entities = memory.rules().entity_extraction != EntityExtraction::Off;
        let found: Vec<Option<ExtractedEntities>> = embedded
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
                // No-op if the entities were extracted when the episode was stored.
                if let Some(found) = found {
                    entities::replace_entities(tx, *number, TAGGER_VERSION, found).await?;
                }
                tx.log_change(EPISODES, Some(*number)).await?;
            }
            tx.touch(MEMORY);
            Ok::<_, MemoryError>(())
        };
        memory.context().db.write(store).await?;
        memory.sync_index().await;
        Ok(WorkerReport::more(items))
    }
}

/// Declares a worker that calls one method of [`Memory`].
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
    /// Stores which episodes were recalled and used. Woken by the recall queue.
    WriteRecalls, "memory.recalls", "Stores which memories were recalled and used.", 10, Some(Memory::recalls_wake), |_| Some(NextDue::NEVER), store_recalls
);
worker!(
    /// Stores episodes from finished turns. Woken when a turn ends.
    RememberConversations, "memory.remember", "Stores episodes from finished turns.", 60, Some(Memory::remember_wake), |_| Some(NextDue::NEVER),
    follow_conversations
);
worker!(
    /// Reviews all conversations at the configured interval.
    ConsolidateConversations, "memory.consolidate", "Stores episodes from messages that were not processed yet.", 60, Some(Memory::consolidate_wake),
    |memory| Some(memory.consolidation_due()),
    consolidate_when_due
);
worker!(
    /// Deletes episodes according to the settings.
    ForgetEpisodes, "memory.forget", "Deletes expired and unimportant episodes.", 60 * 10, Some(Memory::forget_wake), |_| None, forget_by_rules
);
worker!(
    /// Extracts entities with the agents' models, if configured.
    ExtractEntities, "memory.extract", "Extracts entities from episodes with a model.", 60, Some(Memory::extract_wake), |memory| Some(memory.extraction_due()),
    extract_by_model
);
