//! Following turns that end: what was said in them is remembered soon after.

use agentd_base::Timestamp;
use agentd_core::runtime::WorkerReport;
use agentd_engine::engine::{Session, SessionStatus, TurnObserver};
use agentd_store::Tx;

use super::Memory;
use super::remember::{DueConversations, MESSAGES_AT_ONCE};
use crate::memory::error::MemoryError;
use crate::memory::followed::Run;
use crate::memory::jobs::Job;
use crate::memory::source::ConversationRef;
use crate::memory::store::conversations::ConversationProgress;
use crate::memory::store::{conversations, jobs};

const CONVERSATIONS_A_PAGE: u32 = 100;
/// Conversations that are gone over together, before other workers have their turn.
const CONVERSATIONS_AT_ONCE: usize = 32;
/// Pages without anything new before that.
const PAGES: usize = 20;

impl TurnObserver for Memory {
    fn turn_ended(&self, session: &Session, _status: SessionStatus, _reason: Option<&str>) {
        if session.conversation_id.is_some() {
            self.remember_wake().notify_one();
        }
    }
}

impl Memory {
    /// Remembers what was said in conversations that changed lately. How
    /// far each conversation was gone through is stored; a call goes on where the one before it stood, so
    /// that what is there is read once and not again with each of many turns.
    pub(crate) async fn follow_conversations(&self) -> Result<WorkerReport, MemoryError> {
        if self.storing_since().await?.is_none() {
            return Ok(WorkerReport::IDLE);
        }
        // Lost with an error, after which everything since the last whole run is looked at again.
        let run = self.0.followed.lock().run.take();
        let mut run = match run {
            Some(run) => run,
            None => self.begin_run().await?,
        };
        let mut items = 0;
        for _ in 0..PAGES {
            let (since, after) = &run.place;
            let DueConversations { mut due, next, is_last } = self
                .due_conversations(*since, after, CONVERSATIONS_A_PAGE, |conversation, known| {
                    known.revision < conversation.revision
                })
                .await?;
            let is_whole = due.len() <= CONVERSATIONS_AT_ONCE;
            due.truncate(CONVERSATIONS_AT_ONCE);
            let last = due.last().map(|(conversation, _)| (conversation.updated_at, conversation.id.clone()));
            items += due.len() as u64;
            let unfinished = self.remember_conversations(due).await?;
            run.unfinished = run.unfinished.into_iter().chain(unfinished).min();
            let is_new = last.is_some();
            run.place = if is_whole { next } else { last }.unwrap_or(run.place);
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

    /// Goes over the next messages of some conversations. Answers when the first of those changed that there is
    /// more of.
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
            let page = self.source().utterances_after(&conversation.id, before.through, MESSAGES_AT_ONCE).await?;
            read.push((conversation, before, page));
        }
        // Only now: what was read was said before, and it may have been switched off meanwhile.
        let Some(since) = self.storing_since().await? else { return Ok(None) };
        let mut passed = Vec::new();
        for (conversation, before, page) in read {
            if !page.is_last {
                note(&conversation);
            }
            let Some(gone_over) = self.go_over(&conversation, before, page, since).await? else { continue };
            if gone_over.episodes.is_empty() {
                passed.push((conversation, gone_over));
                continue;
            }
            match self.take_in(&conversation, gone_over).await {
                Ok(_) => {}
                Err(MemoryError::Overtaken) => note(&conversation),
                Err(error) => return Err(error),
            }
        }
        if !passed.is_empty() {
            // Whoever was faster with one of them has gone over it.
            let advance = async move |tx: &mut Tx| {
                for (conversation, gone_over) in &passed {
                    conversations::advance(
                        tx,
                        &conversation.id,
                        &conversation.agent_id,
                        gone_over.before,
                        gone_over.after,
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
