//! Jobs of memory; each has at most one active run across all daemons. Each step is an idempotent transaction, so an
//! interrupted run continues where it stopped, and a run without pending work changes nothing.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::lease::{self, HeldRow};
use agentd_core::runtime::WorkerReport;
use agentd_store::{NewEvent, Recorder, StoreError, Tx};
use serde_json::json;

use super::Memory;
use super::remember::DueConversations;
use crate::memory::embedding::{NO_TAGGER_REASON, TAGGER_VERSION};
use crate::memory::error::MemoryError;
use crate::memory::jobs::{Job, JobState, JobStatus, Tally};
use crate::memory::settings::EntityExtraction;
use crate::memory::source::ConversationRef;
use crate::memory::store::conversations::{self, ConversationProgress};
use crate::memory::store::counts::count_episodes;
use crate::memory::store::entities::{self, ExtractedEntities};
use crate::memory::store::episodes;
use crate::memory::store::jobs::{self, JobRow};

/// Lease of a job; another daemon can take over an abandoned run after this time.
const LEASE_DURATION: Duration = Duration::from_secs(20);
/// Maximum number of conversations per run; the next run processes the rest.
const MAX_CONVERSATIONS: usize = 20_000;
const CONVERSATION_PAGE_SIZE: u32 = 200;
const EPISODE_BATCH_SIZE: u32 = 50;
/// Number of steps per background run, before other workers get their turn.
const MAX_BACKGROUND_STEPS: usize = 8;

/// Job claimed by this daemon.
pub(crate) struct ClaimedJob {
    memory: Memory,
    lease: HeldRow,
    pub(crate) row: JobRow,
    /// Totals since it was claimed.
    tally: Tally,
    steps_left: usize,
}

impl ClaimedJob {
    /// Counts a step and saves the progress; returns `false` when the run must stop.
    pub(crate) async fn record_step(&mut self, tally: Tally) -> Result<bool, MemoryError> {
        self.tally.add(tally);
        self.row.tally.add(tally);
        self.save().await?;
        self.steps_left = self.steps_left.saturating_sub(1);
        Ok(self.steps_left > 0 && !self.memory.context().draining.is_cancelled())
    }

    async fn save(&self) -> Result<(), MemoryError> {
        let (held, row) = (self.lease.clone(), self.row.clone());
        let save = async move |tx: &mut Tx| jobs::record_progress(tx, &held, &row, LEASE_DURATION).await;
        Ok(self.memory.context().db.write(save).await?)
    }
}

impl Memory {
    /// Runs a job to its end and returns its totals, which `recorder` stores in the final transaction. The job
    /// continues if the caller is dropped.
    ///
    /// # Errors
    /// `Disabled`, `ExtractionOff`, `JobRunning`, or the database fails.
    pub async fn run_job(&self, job: Job, recorder: Recorder<Tally>) -> Result<Tally, MemoryError> {
        let rules = self.rules();
        if !rules.enabled {
            return Err(MemoryError::Disabled);
        }
        if job == Job::BackfillEntities && rules.entity_extraction == EntityExtraction::Off {
            return Err(MemoryError::ExtractionOff);
        }
        let held = self.claim(job, usize::MAX).await?.ok_or(MemoryError::JobRunning { name: job.as_str() })?;
        let memory = self.clone();
        let task = tokio::spawn(async move { memory.run_claimed(job, held, Some(recorder)).await });
        match task.await {
            Ok(done) => done.map(|(tally, _)| tally),
            Err(error) => {
                tracing::error!(%error, job = job.as_str(), "memory job failed");
                Err(StoreError::Closed.into())
            }
        }
    }

    /// Runs a few steps of a due review of all conversations; the report says whether more follow.
    pub(crate) async fn consolidate_when_due(&self) -> Result<WorkerReport, MemoryError> {
        let minutes = self.rules().consolidate_interval_minutes;
        let next_due = &self.0.consolidation_due;
        if self.auto_store_since().await?.is_none() || minutes == 0 {
            next_due.note(None);
            return Ok(WorkerReport::IDLE);
        }
        let job = Job::Consolidate;
        let row = jobs::find_job(&mut self.context().db.read().await?, job.as_str()).await?;
        let interval = Duration::from_secs(u64::from(minutes) * 60);
        let now = self.context().clock.now();
        if let Some(due) = row.and_then(|row| row.finished_at).map(|at| at + interval).filter(|due| *due > now) {
            next_due.note(Some(due));
            return Ok(WorkerReport::IDLE);
        }
        // The other owner of the lease may have died.
        next_due.note(Some(now + LEASE_DURATION));
        let Some(held) = self.claim(job, MAX_BACKGROUND_STEPS).await? else { return Ok(WorkerReport::IDLE) };
        let (_, is_finished) = self.run_claimed(job, held, None).await?;
        Ok(WorkerReport { items: 1, has_more: !is_finished })
    }

    async fn claim(&self, job: Job, steps_left: usize) -> Result<Option<ClaimedJob>, MemoryError> {
        let owner = self.context().instance.to_string();
        let claim = async move |tx: &mut Tx| jobs::claim_job(tx, job.as_str(), &owner, LEASE_DURATION).await;
        let row = self.context().db.write::<_, StoreError, _>(claim).await?;
        let claimed = row.map(|(lease, row)| ClaimedJob {
            memory: self.clone(),
            lease,
            row,
            tally: Tally::default(),
            steps_left,
        });
        Ok(claimed)
    }

    /// Runs a claimed job; `asked` is the recorder of the request, if the run was requested.
    async fn run_claimed(
        &self,
        job: Job,
        mut held: ClaimedJob,
        asked: Option<Recorder<Tally>>,
    ) -> Result<(Tally, bool), MemoryError> {
        let is_asked_for = asked.is_some();
        let (db, lease) = (self.context().db.clone(), held.lease.clone());
        let work = async {
            match job {
                Job::Consolidate => self.consolidate(&mut held, is_asked_for).await,
                Job::GenerateEpisodes => self.generate(&mut held).await,
                Job::BackfillEntities => self.backfill(&mut held).await,
            }
        };
        let done = lease::run_until_lost(&db, &lease, LEASE_DURATION, work).await.map_err(|error| match error {
            MemoryError::Store(StoreError::LostLease { .. }) => MemoryError::Overtaken,
            other => other,
        });
        let is_finished = matches!(done, Ok(true));
        let (name, tally) = (held.row.name.clone(), held.row.tally);
        let emits_event = job == Job::Consolidate && is_finished && (is_asked_for || tally != Tally::default());
        let release = async move |tx: &mut Tx| {
            match jobs::release_job(tx, &lease, &name, is_finished).await {
                Ok(()) if emits_event => drop(tx.emit(NewEvent::new("memory.consolidated", json!(tally))).await?),
                // Another daemon continues the job.
                Ok(()) | Err(StoreError::LostLease { .. }) => {}
                Err(error) => return Err(error),
            }
            if let Some(recorder) = asked.as_ref().filter(|_| is_finished) {
                recorder.record(tx, &tally).await?;
            }
            Ok::<_, StoreError>(())
        };
        self.context().db.write(release).await?;
        done.map(|is_finished| (held.tally, is_finished))
    }

    /// Returns the conversations that are due, the least recently changed first.
    async fn list_due(
        &self,
        is_due: fn(&ConversationRef, ConversationProgress) -> bool,
    ) -> Result<Vec<ConversationRef>, MemoryError> {
        let mut all = Vec::new();
        let (mut since, mut after) = (Timestamp::from_micros(0), String::new());
        while all.len() < MAX_CONVERSATIONS {
            let DueConversations { due, next, is_last } =
                self.due_conversations(since, &after, CONVERSATION_PAGE_SIZE, is_due).await?;
            all.extend(due.into_iter().map(|(conversation, _)| conversation));
            let Some(next) = next.filter(|_| !is_last) else { break };
            (since, after) = next;
        }
        Ok(all)
    }

    async fn consolidate(&self, held: &mut ClaimedJob, is_asked_for: bool) -> Result<bool, MemoryError> {
        let due = self.list_due(|conversation, known| known.revision < conversation.revision).await?;
        held.row.total = held.row.done + due.len() as u64;
        for conversation in due {
            loop {
                let (tally, has_more) = match self.remember_conversation(&conversation, is_asked_for).await {
                    Ok(remembered) => remembered,
                    // The follower of finished turns processed this part first.
                    Err(MemoryError::Overtaken) => (Tally::default(), true),
                    Err(error) => return Err(error),
                };
                held.row.done += u64::from(!has_more);
                if !held.record_step(tally).await? {
                    return Ok(false);
                }
                if !has_more {
                    break;
                }
            }
        }
        self.forget_missing_conversations().await?;
        // Manually stored episodes are only merged in requested runs.
        while is_asked_for && let Some((place, tally)) = self.merge_repeated(held.row.place, EPISODE_BATCH_SIZE).await?
        {
            held.row.place = place;
            if !held.record_step(tally).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Deletes the progress of conversations that no longer exist.
    async fn forget_missing_conversations(&self) -> Result<(), MemoryError> {
        let mut after = String::new();
        loop {
            let page =
                conversations::list_conversations(&mut self.context().db.read().await?, &after, CONVERSATION_PAGE_SIZE)
                    .await?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(last);
            let missing = self.source().missing(&page).await?;
            if !missing.is_empty() {
                let delete = async move |tx: &mut Tx| conversations::delete_conversations(tx, &missing).await;
                self.context().db.write::<_, StoreError, _>(delete).await?;
            }
        }
    }

    async fn generate(&self, held: &mut ClaimedJob) -> Result<bool, MemoryError> {
        let due = self.list_due(|conversation, known| known.insight_revision < conversation.revision).await?;
        held.row.total = held.row.done + due.len() as u64;
        // A model that does not answer is not called again in this run.
        let mut may_ask = true;
        for conversation in due {
            let tally = match self.summarize(&conversation, &mut may_ask).await {
                Err(MemoryError::Overtaken) => Tally::default(),
                result => result?,
            };
            held.row.done += 1;
            if !held.record_step(tally).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn backfill(&self, held: &mut ClaimedJob) -> Result<bool, MemoryError> {
        let mut read = self.context().db.read().await?;
        held.row.total = held.row.done + entities::count_not_extracted(&mut read, TAGGER_VERSION).await?;
        drop(read);
        let mut after = 0;
        loop {
            let mut read = self.context().db.read().await?;
            let batch = entities::list_not_extracted(&mut read, TAGGER_VERSION, after, EPISODE_BATCH_SIZE).await?;
            drop(read);
            let Some((last, _)) = batch.last() else { return Ok(true) };
            after = *last;
            let mut tally = Tally { processed: batch.len() as u64, ..Tally::default() };
            let count = batch.len() as u64;
            let found = self.tag(batch).await?;
            let store = async move |tx: &mut Tx| {
                let mut with_entities = 0;
                for (number, found) in &found {
                    let is_replaced = entities::replace_entities(tx, *number, TAGGER_VERSION, found).await?;
                    with_entities += u64::from(is_replaced && !found.entities.is_empty());
                }
                Ok::<_, StoreError>(with_entities)
            };
            tally.created = self.context().db.write(store).await?;
            tally.skipped = tally.processed - tally.created;
            held.row.done += count;
            if !held.record_step(tally).await? {
                return Ok(false);
            }
        }
    }

    /// Extracts the entities of episodes.
    async fn tag(&self, episodes: Vec<(i64, String)>) -> Result<Vec<(i64, ExtractedEntities)>, MemoryError> {
        let texts = episodes.iter().map(|(_, content)| content.clone()).collect();
        let embedded = self.embedding().embed_texts(texts).await;
        let embedded = embedded.map_err(|error| MemoryError::NoTagger { reason: error.message })?;
        let found = episodes.into_iter().zip(embedded).map(|((number, content), embedded)| {
            let found = embedded.find_entities(&content);
            let found = found.ok_or_else(|| MemoryError::NoTagger { reason: NO_TAGGER_REASON.to_owned() })?;
            Ok((number, found))
        });
        found.collect()
    }

    /// Returns the state of all jobs.
    ///
    /// # Errors
    /// The database fails.
    pub async fn jobs(&self) -> Result<Vec<JobState>, MemoryError> {
        let now = self.context().clock.now();
        let mut read = self.context().db.read().await?;
        let rows = jobs::list_jobs(&mut read).await?;
        let state = |job: &Job| match rows.iter().find(|row| row.name == job.as_str()) {
            None => idle(job.as_str()),
            Some(row) => JobState {
                name: job.as_str(),
                status: match row.finished_at {
                    _ if row.held_until.is_some_and(|until| until > now) => JobStatus::Running,
                    None if row.started_at.is_some() => JobStatus::Interrupted,
                    _ => JobStatus::Idle,
                },
                done: row.done,
                total: row.total,
                started_at: row.started_at,
                updated_at: Some(row.updated_at),
            },
        };
        let mut states: Vec<JobState> = Job::ALL.iter().map(state).collect();
        let total = count_episodes(&mut read, None).await?;
        let model = match self.embedding().model_id().await {
            Some(model) => Some(model),
            None => episodes::newest_model(&mut read).await?,
        };
        let waiting = episodes::count_without_vectors(&mut read, model.as_deref().unwrap_or_default()).await?;
        let status = match (waiting, self.embedding().model_id().await) {
            (0, _) => JobStatus::Idle,
            (_, Some(_)) => JobStatus::Running,
            (_, None) => JobStatus::Waiting,
        };
        states.push(JobState { status, done: total.saturating_sub(waiting), total, ..idle("embed_episodes") });
        Ok(states)
    }

    /// Deletes a batch of expired or unimportant episodes; the report says whether more may follow.
    pub(crate) async fn forget_by_rules(&self) -> Result<WorkerReport, MemoryError> {
        const BATCH_SIZE: u32 = 50;
        let rules = self.rules();
        if !rules.enabled {
            return Ok(WorkerReport::IDLE);
        }
        let mut read = self.context().db.read().await?;
        let min_importance = crate::memory::model::Millionths::of(rules.min_importance);
        let mut expired = episodes::list_unimportant(&mut read, min_importance, BATCH_SIZE).await?;
        let untouched_since = (rules.retention_days > 0).then(|| {
            let kept = Duration::from_secs(u64::from(rules.retention_days) * 24 * 60 * 60);
            self.context().clock.now() - kept
        });
        if let Some(since) = untouched_since {
            let old = episodes::list_untouched_since(&mut read, since, BATCH_SIZE).await?;
            expired.extend(
                old.into_iter()
                    .filter(|old| !expired.iter().any(|other| other.number == old.number))
                    .collect::<Vec<_>>(),
            );
        }
        drop(read);
        if expired.is_empty() {
            return Ok(WorkerReport::IDLE);
        }
        expired.sort_by_key(|episode| episode.number);
        let items = expired.len();
        let forget = async move |tx: &mut Tx| {
            for episode in &expired {
                // An episode that was recalled or raised in importance meanwhile is retained.
                if episodes::is_still_expired(tx, episode.number, min_importance, untouched_since).await? {
                    episodes::delete_episode(tx, episode).await?;
                }
            }
            tx.touch(crate::memory::follower::MEMORY);
            Ok::<_, StoreError>(())
        };
        self.context().db.write(forget).await?;
        self.sync_index().await;
        Ok(WorkerReport::more(items))
    }
}

fn idle(name: &'static str) -> JobState {
    JobState { name, status: JobStatus::Idle, done: 0, total: 0, started_at: None, updated_at: None }
}
