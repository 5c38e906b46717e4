//! Storing episodes soon after a turn ends.

use agentd_base::Timestamp;
use agentd_core::runtime::WorkerReport;
use agentd_engine::engine::{Session, SessionStatus, TurnObserver};
use agentd_store::Tx;

use super::Memory;
use super::remember::{DueConversations, MESSAGE_BATCH_SIZE};
use crate::memory::error::MemoryError;
use crate::memory::followed::Run;
use crate::memory::jobs::Job;
use crate::memory::source::ConversationRef;
use crate::memory::store::conversations::ConversationProgress;
use crate::memory::store::{conversations, jobs};

const CONVERSATION_PAGE_SIZE: u32 = 100;
/// Maximum number of conversations per run, before other workers get their turn.
const MAX_CONVERSATIONS_PER_RUN: usize = 32;
/// Maximum number of pages without due conversations per run.
const MAX_PAGES: usize = 20;

impl TurnObserver for Memory {
    fn turn_ended(&self, session: &Session, _status: SessionStatus, _reason: Option<&str>) {
        if session.conversation_id.is_some() {
            self.remember_wake().notify_one();
        }
    }
}

impl Memory {
    /// Stores episodes from conversations that changed recently. The progress of each conversation is persisted, and a
    /// call continues where the previous one stopped, so messages are read once.
    pub(crate) async fn follow_conversations(&self) -> Result<WorkerReport, MemoryError> {
        if self.auto_store_since().await?.is_none() {
            return Ok(WorkerReport::IDLE);
        }
        // Taken out of the state, so that it is lost after an error; the next run then starts at the last complete run.
        let run = self.0.followed.lock().run.take();
        let mut run = match run {
            Some(run) => run,
            None => self.begin_run().await?,
        };
        let mut items = 0;
        for _ in 0..MAX_PAGES {
            let (since, after) = &run.position;
            let DueConversations { mut due, next, is_last } = self
                .due_conversations(*since, after, CONVERSATION_PAGE_SIZE, |conversation, known| {
                    known.revision < conversation.revision
                })
                .await?;
            let is_whole = due.len() <= MAX_CONVERSATIONS_PER_RUN;
            due.truncate(MAX_CONVERSATIONS_PER_RUN);
            let last = due.last().map(|(conversation, _)| (conversation.updated_at, conversation.id.clone()));
            items += due.len() as u64;
            let unfinished = self.remember_conversations(due).await?;
            run.unfinished = run.unfinished.into_iter().chain(unfinished).min();
            let is_new = last.is_some();
            run.position = if is_whole { next } else { last }.unwrap_or(run.position);
            if is_whole && is_last {
                return Ok(WorkerReport { items, has_more: self.0.followed.lock().end(&run) });
            }
            if is_new {
                break;
            }
        }
        self.0.followed.lock().run = Some(run);
        Ok(WorkerReport { items, has_more: true })
    }

    async fn begin_run(&self) -> Result<Run, MemoryError> {
        let now = self.context().clock.now();
        if let Some(run) = self.0.followed.lock().next_run(now) {
            return Ok(run);
        }
        let row = jobs::find_job(&mut self.context().db.read().await?, Job::Consolidate.as_str()).await?;
        let finished = row.filter(|row| row.finished_at.is_some()).and_then(|row| row.started_at);
        Ok(Run::first(finished, now))
    }

    /// Processes the next messages of some conversations. Returns the earliest change time of those that have more
    /// messages.
    async fn remember_conversations(
        &self,
        due: Vec<(ConversationRef, ConversationProgress)>,
    ) -> Result<Option<Timestamp>, MemoryError> {
        let mut unfinished = None;
        let mut note = |conversation: &ConversationRef| {
            unfinished =
                Some(unfinished.map_or(conversation.updated_at, |first: Timestamp| first.min(conversation.updated_at)));
        };
        let mut read = Vec::with_capacity(due.len());
        for (conversation, before) in due {
            let page = self.source().utterances_after(&conversation.id, before.through, MESSAGE_BATCH_SIZE).await?;
            read.push((conversation, before, page));
        }
        // Checked after reading: the messages are older than this, and memory may have been disabled meanwhile.
        let Some(since) = self.auto_store_since().await? else { return Ok(None) };
        let mut without_episodes = Vec::new();
        for (conversation, before, page) in read {
            if !page.is_last {
                note(&conversation);
            }
            let Some(processed) = self.select_episodes(&conversation, before, page, since).await? else { continue };
            if processed.episodes.is_empty() {
                without_episodes.push((conversation, processed));
                continue;
            }
            match self.store_batch(&conversation, processed).await {
                Ok(_) => {}
                Err(MemoryError::Overtaken) => note(&conversation),
                Err(error) => return Err(error),
            }
        }
        if !without_episodes.is_empty() {
            // A conversation that another run advanced is already processed.
            let advance = async move |tx: &mut Tx| {
                for (conversation, processed) in &without_episodes {
                    conversations::advance(
                        tx,
                        &conversation.id,
                        &conversation.agent_id,
                        processed.before,
                        processed.after,
                    )
                    .await?;
                }
                Ok::<_, MemoryError>(())
            };
            self.context().db.write(advance).await?;
        }
        Ok(unfinished)
    }
}
