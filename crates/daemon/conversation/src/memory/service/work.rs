//! Long work, one run at a time over all daemons. Each step is a transaction of its own that cannot be
//! done twice, so a run that was cut off goes on where it was, and one that has nothing to do does nothing.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::lease::{self, HeldRow};
use agentd_core::runtime::WorkerReport;
use agentd_store::{NewEvent, Recorder, StoreError, Tx};
use serde_json::json;

use super::Memory;
use super::remember::DueConversations;
use crate::memory::embedding::{OTHER_MODEL, TAGGER_VERSION};
use crate::memory::error::MemoryError;
use crate::memory::jobs::{Job, JobState, JobStatus, Tally};
use crate::memory::settings::EntityExtraction;
use crate::memory::source::ConversationRef;
use crate::memory::store::conversations::{self, ConversationProgress};
use crate::memory::store::counts::count_episodes;
use crate::memory::store::entities::{self, Found};
use crate::memory::store::episodes;
use crate::memory::store::jobs::{self, JobRow};

/// After a daemon's sudden end another one may go on with its work when this is over.
const LEASE: Duration = Duration::from_secs(20);
/// Conversations of one run; a run that finds more leaves them to the next.
const MAX_CONVERSATIONS: usize = 20_000;
const CONVERSATIONS_A_PAGE: u32 = 200;
const EPISODES_AT_ONCE: u32 = 50;
/// Steps of a run that nobody waits for, before other workers have their turn.
const BACKGROUND_STEPS: usize = 8;

/// Work that this daemon holds.
pub(crate) struct Held {
    memory: Memory,
    lease: HeldRow,
    pub(crate) row: JobRow,
    /// What came of it since it was taken.
    tally: Tally,
    steps_left: usize,
}

impl Held {
    /// Counts a step and writes down how far the work is; `false` when it is time to stop.
    pub(crate) async fn step(&mut self, tally: Tally) -> Result<bool, MemoryError> {
        self.tally.add(tally);
        self.row.tally.add(tally);
        self.save().await?;
        self.steps_left = self.steps_left.saturating_sub(1);
        Ok(self.steps_left > 0 && !self.memory.context().draining.is_cancelled())
    }

    async fn save(&self) -> Result<(), MemoryError> {
        let (held, row) = (self.lease.clone(), self.row.clone());
        let save = async move |tx: &mut Tx| jobs::record_progress(tx, &held, &row, LEASE).await;
        Ok(self.memory.context().db.write(save).await?)
    }
}

impl Memory {
    /// Does a job to its end and answers what came of it, which is recorded where the job ends. Whoever asked may
    /// go away meanwhile.
    ///
    /// # Errors
    /// `Disabled`, `ExtractionOff`, `JobRunning`, or the store's refusal.
    pub async fn run_job(&self, job: Job, recorder: Recorder<Tally>) -> Result<Tally, MemoryError> {
        let rules = self.rules();
        if !rules.enabled {
            return Err(MemoryError::Disabled);
        }
        if job == Job::BackfillEntities && rules.entity_extraction == EntityExtraction::Off {
            return Err(MemoryError::ExtractionOff);
        }
        let held = self.claim(job, usize::MAX).await?.ok_or(MemoryError::JobRunning { name: job.as_str() })?;
        let here = self.clone();
        let task = tokio::spawn(async move { here.do_held(job, held, Some(recorder)).await });
        match task.await {
            Ok(done) => done.map(|(tally, _)| tally),
            Err(error) => {
                tracing::error!(%error, job = job.as_str(), "a job of memory went wrong");
                Err(StoreError::Closed.into())
            }
        }
    }

    /// Goes through conversations when that is due, a few steps of it; answers whether there is more.
    pub(crate) async fn consolidate_when_due(&self) -> Result<WorkerReport, MemoryError> {
        let minutes = self.rules().consolidate_interval_minutes;
        let next_due = &self.0.consolidation_due;
        if self.storing_since().await?.is_none() || minutes == 0 {
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
        // Whoever holds it may have ended.
        next_due.note(Some(now + LEASE));
        let Some(held) = self.claim(job, BACKGROUND_STEPS).await? else { return Ok(WorkerReport::IDLE) };
        let (_, is_finished) = self.do_held(job, held, None).await?;
        Ok(WorkerReport { items: 1, has_more: !is_finished })
    }

    async fn claim(&self, job: Job, steps_left: usize) -> Result<Option<Held>, MemoryError> {
        let owner = self.context().instance.to_string();
        let claim = async move |tx: &mut Tx| jobs::claim_job(tx, job.as_str(), &owner, LEASE).await;
        let row = self.context().db.write::<_, StoreError, _>(claim).await?;
        let claimed =
            row.map(|(lease, row)| Held { memory: self.clone(), lease, row, tally: Tally::default(), steps_left });
        Ok(claimed)
    }

    /// `asked` is the recorder of who asked for it, if somebody did.
    async fn do_held(
        &self,
        job: Job,
        mut held: Held,
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
        let done = lease::hold(&db, &lease, LEASE, work).await.map_err(|error| match error {
            MemoryError::Store(StoreError::LostLease { .. }) => MemoryError::Overtaken,
            other => other,
        });
        let is_finished = matches!(done, Ok(true));
        let (name, tally) = (held.row.name.clone(), held.row.tally);
        let says = job == Job::Consolidate && is_finished && (is_asked_for || tally != Tally::default());
        let release = async move |tx: &mut Tx| {
            match jobs::release_job(tx, &lease, &name, is_finished).await {
                Ok(()) if says => drop(tx.emit(NewEvent::new("memory.consolidated", json!(tally))).await?),
                // Another daemon goes on with it.
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

    /// The conversations that are due, the longest unchanged first.
    async fn all_due(
        &self,
        is_due: fn(&ConversationRef, ConversationProgress) -> bool,
    ) -> Result<Vec<ConversationRef>, MemoryError> {
        let mut all = Vec::new();
        let (mut since, mut after) = (Timestamp::from_micros(0), String::new());
        while all.len() < MAX_CONVERSATIONS {
            let DueConversations { due, next, is_last } =
                self.due_conversations(since, &after, CONVERSATIONS_A_PAGE, is_due).await?;
            all.extend(due.into_iter().map(|(conversation, _)| conversation));
            let Some(next) = next.filter(|_| !is_last) else { break };
            (since, after) = next;
        }
        Ok(all)
    }

    async fn consolidate(&self, held: &mut Held, is_asked_for: bool) -> Result<bool, MemoryError> {
        let due = self.all_due(|conversation, known| known.revision < conversation.revision).await?;
        held.row.total = held.row.done + due.len() as u64;
        for conversation in due {
            loop {
                let (tally, has_more) = match self.remember_conversation(&conversation, is_asked_for).await {
                    Ok(remembered) => remembered,
                    // What follows turns that end was faster, with this part of it.
                    Err(MemoryError::Overtaken) => (Tally::default(), true),
                    Err(error) => return Err(error),
                };
                held.row.done += u64::from(!has_more);
                if !held.step(tally).await? {
                    return Ok(false);
                }
                if !has_more {
                    break;
                }
            }
        }
        self.forget_missing_conversations().await?;
        // What was given from outside is only touched when somebody asks for it.
        while is_asked_for && let Some((place, tally)) = self.merge_repeated(held.row.place, EPISODES_AT_ONCE).await? {
            held.row.place = place;
            if !held.step(tally).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Forgets how far conversations were gone through that are not there any more.
    async fn forget_missing_conversations(&self) -> Result<(), MemoryError> {
        let mut after = String::new();
        loop {
            let page =
                conversations::list_conversations(&mut self.context().db.read().await?, &after, CONVERSATIONS_A_PAGE)
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

    async fn generate(&self, held: &mut Held) -> Result<bool, MemoryError> {
        let due = self.all_due(|conversation, known| known.insight_revision < conversation.revision).await?;
        held.row.total = held.row.done + due.len() as u64;
        // One that does not answer now is not asked again for every conversation.
        let mut may_ask = true;
        for conversation in due {
            let tally = match self.sum_up(&conversation, &mut may_ask).await {
                Err(MemoryError::Overtaken) => Tally::default(),
                summed => summed?,
            };
            held.row.done += 1;
            if !held.step(tally).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn backfill(&self, held: &mut Held) -> Result<bool, MemoryError> {
        let mut read = self.context().db.read().await?;
        held.row.total = held.row.done + entities::count_not_extracted_by(&mut read, TAGGER_VERSION).await?;
        drop(read);
        let mut after = 0;
        loop {
            let mut read = self.context().db.read().await?;
            let batch = entities::not_extracted_by(&mut read, TAGGER_VERSION, after, EPISODES_AT_ONCE).await?;
            drop(read);
            let Some((last, _)) = batch.last() else { return Ok(true) };
            after = *last;
            let mut tally = Tally { processed: batch.len() as u64, ..Tally::default() };
            let count = batch.len() as u64;
            let found = self.tag(batch).await?;
            let store = async move |tx: &mut Tx| {
                let mut with_entities = 0;
                for (number, found) in &found {
                    let is_replaced = entities::replace_found(tx, *number, TAGGER_VERSION, found).await?;
                    with_entities += u64::from(is_replaced && !found.entities.is_empty());
                }
                Ok::<_, StoreError>(with_entities)
            };
            tally.created = self.context().db.write(store).await?;
            tally.skipped = tally.processed - tally.created;
            held.row.done += count;
            if !held.step(tally).await? {
                return Ok(false);
            }
        }
    }

    /// The entities of episodes.
    async fn tag(&self, episodes: Vec<(i64, String)>) -> Result<Vec<(i64, Found)>, MemoryError> {
        let texts = episodes.iter().map(|(_, content)| content.clone()).collect();
        let embedded = self.embedding().texts(texts).await;
        let embedded = embedded.map_err(|error| MemoryError::NoTagger { reason: error.message })?;
        let found = episodes.into_iter().zip(embedded).map(|((number, content), embedded)| {
            let found = embedded.find_entities(&content);
            let found = found.ok_or_else(|| MemoryError::NoTagger { reason: OTHER_MODEL.to_owned() })?;
            Ok((number, found))
        });
        found.collect()
    }

    /// Every long work as it stands.
    ///
    /// # Errors
    /// The store's refusal.
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
        let waiting = episodes::count_without_vectors_of(&mut read, model.as_deref().unwrap_or_default()).await?;
        let status = match (waiting, self.embedding().model_id().await) {
            (0, _) => JobStatus::Idle,
            (_, Some(_)) => JobStatus::Running,
            (_, None) => JobStatus::Waiting,
        };
        states.push(JobState { status, done: total.saturating_sub(waiting), total, ..idle("embed_episodes") });
        Ok(states)
    }

    /// Forgets what has had its time, a batch; answers whether there may be more.
    pub(crate) async fn forget_by_rules(&self) -> Result<WorkerReport, MemoryError> {
        const AT_ONCE: u32 = 50;
        let rules = self.rules();
        if !rules.enabled {
            return Ok(WorkerReport::IDLE);
        }
        let mut read = self.context().db.read().await?;
        let least = crate::memory::model::Millionths::of(rules.min_importance);
        let mut gone = episodes::list_unimportant(&mut read, least, AT_ONCE).await?;
        let untouched_since = (rules.retention_days > 0).then(|| {
            let kept = Duration::from_secs(u64::from(rules.retention_days) * 24 * 60 * 60);
            self.context().clock.now() - kept
        });
        if let Some(since) = untouched_since {
            let old = episodes::list_untouched_since(&mut read, since, AT_ONCE).await?;
            gone.extend(
                old.into_iter().filter(|old| !gone.iter().any(|other| other.number == old.number)).collect::<Vec<_>>(),
            );
        }
        drop(read);
        if gone.is_empty() {
            return Ok(WorkerReport::IDLE);
        }
        gone.sort_by_key(|episode| episode.number);
        let items = gone.len();
        let forget = async move |tx: &mut Tx| {
            for episode in &gone {
                // Recalled or raised meanwhile: it stays.
                if episodes::is_still_to_go(tx, episode.number, least, untouched_since).await? {
                    episodes::delete_episode(tx, episode).await?;
                }
            }
            tx.touch(crate::memory::follower::MEMORY);
            Ok::<_, StoreError>(())
        };
        self.context().db.write(forget).await?;
        self.settle().await;
        Ok(WorkerReport::more(items))
    }
}

fn idle(name: &'static str) -> JobState {
    JobState { name, status: JobStatus::Idle, done: 0, total: 0, started_at: None, updated_at: None }
}
