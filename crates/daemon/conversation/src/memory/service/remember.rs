//! Storing episodes from conversations.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentError;
use agentd_store::Tx;

use super::Memory;
use super::create::Prepared;
use crate::memory::error::MemoryError;
use crate::memory::follower::MEMORY;
use crate::memory::jobs::Tally;
use crate::memory::model::{Episode, NewEpisode};
use crate::memory::selection::select_episode;
use crate::memory::source::{ConversationRef, Speaker, UtterancePage};
use crate::memory::store::conversations::ConversationProgress;
use crate::memory::store::{conversations, episodes};

/// Maximum number of messages processed per step.
pub(super) const MESSAGE_BATCH_SIZE: u32 = 16;
/// Episodes selected from some messages of a conversation.
pub(super) struct ProcessedBatch {
    /// Progress of the conversation before these messages.
    pub(super) before: ConversationProgress,
    /// Progress of the conversation after these messages.
    pub(super) after: ConversationProgress,
    /// Selected episodes with the positions of their messages.
    pub(super) episodes: Vec<(u64, NewEpisode)>,
    /// Number of messages.
    count: u64,
}

/// Page of conversations: those that are due, with their progress.
pub(crate) struct DueConversations {
    pub(super) due: Vec<(ConversationRef, ConversationProgress)>,
    /// Position of the next page; `None` if the page is empty.
    pub(super) next: Option<(Timestamp, String)>,
    /// Whether this is the last page.
    pub(super) is_last: bool,
}

impl Memory {
    /// Processes the next messages of a conversation; returns whether there are more. A requested run includes messages
    /// from times when automatic storing was disabled.
    pub(crate) async fn remember_conversation(
        &self,
        conversation: &ConversationRef,
        is_asked_for: bool,
    ) -> Result<(Tally, bool), MemoryError> {
        let mut read = self.context().db.read().await?;
        let known = conversations::find_progress(&mut read, &[conversation.id.as_str()]).await?;
        drop(read);
        let before = known.get(&conversation.id).copied().unwrap_or_default();
        if before.revision >= conversation.revision {
            return Ok((Tally::default(), false));
        }
        let page = self.source().utterances_after(&conversation.id, before.through, MESSAGE_BATCH_SIZE).await?;
        let has_more = !page.is_last;
        // Checked after reading: the messages are older than this, and memory may have been disabled meanwhile.
        let since = if is_asked_for { self.enabled_since().await? } else { self.auto_store_since().await? };
        let Some(since) = since else { return Ok((Tally::default(), false)) };
        match self.select_episodes(conversation, before, page, since).await? {
            Some(processed) => Ok((self.store_batch(conversation, processed).await?, has_more)),
            None => Ok((Tally::default(), false)),
        }
    }

    /// Evaluates the messages since `since`; returns `None` if the agent was deleted.
    pub(super) async fn select_episodes(
        &self,
        conversation: &ConversationRef,
        before: ConversationProgress,
        page: UtterancePage,
        since: Timestamp,
    ) -> Result<Option<ProcessedBatch>, MemoryError> {
        let agent = match self.0.agents.get(conversation.agent_id.as_str()).await {
            Ok(agent) => agent,
            Err(AgentError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let min_importance = self.rules().min_importance;
        let mut question = "";
        let mut selected: Vec<(u64, NewEpisode)> = Vec::new();
        for utterance in &page.utterances {
            if utterance.speaker == Speaker::Owner {
                question = &utterance.text;
            }
            let new = select_episode(utterance, question, &agent, min_importance).filter(|_| utterance.at >= since);
            selected.extend(new.and_then(|new| new.checked().ok()).map(|new| (utterance.position, new)));
        }
        let after = ConversationProgress {
            through: page.utterances.last().map_or(before.through, |last| last.position),
            revision: if page.is_last { conversation.revision } else { before.revision },
            ..before
        };
        Ok(Some(ProcessedBatch { before, after, episodes: selected, count: page.utterances.len() as u64 }))
    }

    /// Stores the selected episodes and the progress of the conversation.
    pub(super) async fn store_batch(
        &self,
        conversation: &ConversationRef,
        processed: ProcessedBatch,
    ) -> Result<Tally, MemoryError> {
        let ProcessedBatch { before, after, episodes: selected, count } = processed;
        let texts: Vec<String> = selected.iter().map(|(_, new)| new.content.clone()).collect();
        let mut embedded = self.embedding().embed_texts_or_none(texts).await.into_iter();
        let mut tally = Tally { processed: count, ..Tally::default() };
        let mut progress = before;
        for (position, new) in selected {
            let prepared = self.prepare(new, embedded.next().flatten());
            let after = ConversationProgress { through: position, ..progress };
            if self.store_or_merge(conversation, prepared, (progress, after)).await? {
                tally.created += 1;
            } else {
                tally.merged += 1;
            }
            progress = after;
        }
        tally.skipped = tally.processed - tally.created - tally.merged;
        if after != progress {
            self.advance(conversation, progress, after).await?;
        }
        Ok(tally)
    }

    async fn advance(
        &self,
        conversation: &ConversationRef,
        before: ConversationProgress,
        after: ConversationProgress,
    ) -> Result<(), MemoryError> {
        let conversation = conversation.clone();
        let advance = async move |tx: &mut Tx| match conversations::advance(
            tx,
            &conversation.id,
            &conversation.agent_id,
            before,
            after,
        )
        .await?
        {
            true => Ok(()),
            false => Err(MemoryError::Overtaken),
        };
        self.context().db.write(advance).await
    }

    /// Stores an episode or merges it into the one it repeats, and advances the conversation, in one transaction.
    /// Returns whether a new episode was stored.
    async fn store_or_merge(
        &self,
        conversation: &ConversationRef,
        prepared: Prepared,
        (before, after): (ConversationProgress, ConversationProgress),
    ) -> Result<bool, MemoryError> {
        let (memory, conversation) = (self.clone(), conversation.clone());
        let store_or_merge = async move |tx: &mut Tx| {
            if !conversations::advance(tx, &conversation.id, &conversation.agent_id, before, after).await? {
                return Err(MemoryError::Overtaken);
            }
            let Episode { content, importance, .. } = &prepared.episode;
            if let Some(older) = episodes::find_repeated(tx, &conversation.agent_id, content, None).await?
                && episodes::merge_into(tx, older, *importance).await?
            {
                return Ok(false);
            }
            Ok(memory.insert(tx, &prepared).await?.is_some())
        };
        let is_new = self.context().db.write(store_or_merge).await?;
        if is_new {
            self.sync_index().await;
        }
        Ok(is_new)
    }

    /// Merges a batch of episodes after `place` that repeat an older one. Only episodes from conversations and insights
    /// are merged. Returns where the next batch begins.
    pub(crate) async fn merge_repeated(&self, place: i64, limit: u32) -> Result<Option<(i64, Tally)>, MemoryError> {
        let batch = episodes::list_comparable(&mut self.context().db.read().await?, place, limit).await?;
        let Some(last) = batch.last().map(|last| last.number) else { return Ok(None) };
        let mut tally = Tally::default();
        for episode in batch {
            let Some(agent) = episode.agent_id.clone() else { continue };
            let mut read = self.context().db.read().await?;
            let older = episodes::find_repeated(&mut read, &agent, &episode.content, Some(episode.number)).await?;
            drop(read);
            let Some(older) = older else { continue };
            let merge = async move |tx: &mut Tx| {
                if !episodes::merge_into(tx, older, episode.importance).await? {
                    return Ok(false);
                }
                tx.touch(MEMORY);
                Ok::<_, MemoryError>(episodes::delete_episode(tx, &episode).await?)
            };
            if self.context().db.write(merge).await? {
                tally.merged += 1;
                self.sync_index().await;
            }
        }
        Ok(Some((last, tally)))
    }

    /// Returns a page of conversations that changed at `since` or later, reduced to those that are due.
    pub(crate) async fn due_conversations(
        &self,
        since: Timestamp,
        after: &str,
        limit: u32,
        is_due: fn(&ConversationRef, ConversationProgress) -> bool,
    ) -> Result<DueConversations, MemoryError> {
        let conversations = self.source().changed_since(since, after, limit).await?;
        let next = conversations.last().map(|last| (last.updated_at, last.id.clone()));
        let is_last = conversations.len() < limit as usize;
        let ids: Vec<&str> = conversations.iter().map(|conversation| conversation.id.as_str()).collect();
        let known = conversations::find_progress(&mut self.context().db.read().await?, &ids).await?;
        let known_of = |conversation: ConversationRef| {
            let known = known.get(&conversation.id).copied().unwrap_or_default();
            (conversation, known)
        };
        let due = conversations
            .into_iter()
            .map(known_of)
            .filter(|(conversation, known)| is_due(conversation, *known))
            .collect();
        Ok(DueConversations { due, next, is_last })
    }
}
