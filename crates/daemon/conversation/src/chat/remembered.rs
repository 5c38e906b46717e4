//! Messages for memory.

use std::collections::HashSet;

use agentd_base::Timestamp;
use agentd_store::StoreError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::model::{ConversationId, Message, MessageStatus, Role};
use super::service::Chat;
use super::store;
use crate::memory::{ConversationRef, ConversationSource, Speaker, Utterance, UtterancePage};

/// Maximum length of the part of a message that memory sees.
const MAX_MESSAGE_CHARACTERS: usize = 8_000;

impl ConversationSource for Chat {
    fn changed_since<'t>(
        &'t self,
        since: Timestamp,
        after: &'t str,
        limit: u32,
    ) -> BoxFuture<'t, Result<Vec<ConversationRef>, StoreError>> {
        async move {
            let mut read = self.context().db.read().await?;
            let found = store::list_all_changed_since(&mut read, since, after, limit).await?;
            let reference = |conversation: super::model::Conversation| ConversationRef {
                id: conversation.id.to_string(),
                agent_id: conversation.agent_id,
                title: conversation.title,
                revision: conversation.revision,
                updated_at: conversation.updated_at,
            };
            Ok(found.into_iter().map(reference).collect())
        }
        .boxed()
    }

    fn utterances_after<'t>(
        &'t self,
        conversation: &'t str,
        position: u64,
        limit: u32,
    ) -> BoxFuture<'t, Result<UtterancePage, StoreError>> {
        async move {
            let id = ConversationId::from(conversation);
            let mut read = self.context().db.read().await?;
            let (messages, is_last) = store::list_finished_after(&mut read, &id, position, limit).await?;
            Ok(UtterancePage { utterances: messages.into_iter().map(utterance).collect(), is_last })
        }
        .boxed()
    }

    fn missing<'t>(&'t self, conversations: &'t [String]) -> BoxFuture<'t, Result<Vec<String>, StoreError>> {
        async move {
            let existing = store::list_existing(&mut self.context().db.read().await?, conversations).await?;
            let existing: HashSet<String> = existing.into_iter().collect();
            Ok(conversations.iter().filter(|id| !existing.contains(*id)).cloned().collect())
        }
        .boxed()
    }
}

fn utterance(message: Message) -> Utterance {
    let mut tools: Vec<String> = Vec::new();
    for call in message.rounds.iter().flat_map(|round| &round.calls) {
        // A plan is shown as a call but is not a tool.
        if call.tool != "plan" && !tools.contains(&call.tool) {
            tools.push(call.tool.clone());
        }
    }
    let is_untrusted = message.rounds.iter().flat_map(|round| &round.calls).any(|call| call.untrusted_source.is_some());
    let speaker = match message.role {
        _ if message.is_untrusted => Speaker::UnknownSender,
        Role::User => Speaker::Owner,
        Role::Assistant | Role::System => Speaker::Agent,
    };
    // The text of the last round is the conclusion; earlier texts announce tool calls.
    let last = message.rounds.last().map(|round| round.text.trim()).filter(|text| !text.is_empty());
    let text = last.unwrap_or(&message.content);
    Utterance {
        text: text.chars().take(MAX_MESSAGE_CHARACTERS).collect(),
        id: message.id.to_string(),
        position: message.position,
        speaker,
        tools,
        is_untrusted,
        is_complete: message.status == MessageStatus::Complete,
        at: message.created_at,
    }
}
