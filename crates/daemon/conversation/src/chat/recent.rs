//! Recent messages, for agents that learn from them.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::StoreError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::model::Role;
use super::service::Chat;
use super::store;
use crate::evolution::{Author, RecentUtterances, Utterance};

const MAX_CONVERSATIONS: u32 = 20;
const MAX_MESSAGES_PER_CONVERSATION: u32 = 50;
/// Maximum length of the shown part of a message.
const MAX_MESSAGE_CHARACTERS: u32 = 2_000;

impl RecentUtterances for Chat {
    fn newest<'t>(
        &'t self,
        agent: &'t AgentId,
        since: Option<Timestamp>,
        max_characters: usize,
    ) -> BoxFuture<'t, Result<Vec<Utterance>, StoreError>> {
        async move {
            let since = since.unwrap_or_default();
            let mut read = self.context().db.read().await?;
            let mut left = max_characters;
            let mut utterances = Vec::new();
            for id in store::list_changed_since(&mut read, agent, since, MAX_CONVERSATIONS).await? {
                let excerpts = store::list_excerpts_since(
                    &mut read,
                    &id,
                    since,
                    MAX_MESSAGES_PER_CONVERSATION,
                    MAX_MESSAGE_CHARACTERS,
                )
                .await?;
                for message in excerpts {
                    let characters = message.text.chars().count();
                    if characters > left {
                        // Collected newest first.
                        utterances.reverse();
                        return Ok(utterances);
                    }
                    left -= characters;
                    let author = match message.role {
                        _ if message.is_untrusted => Author::UnknownSender,
                        Role::User => Author::Owner,
                        Role::Assistant | Role::System => Author::Agent,
                    };
                    utterances.push(Utterance {
                        conversation_id: id.to_string(),
                        author,
                        text: message.text,
                        at: message.at,
                    });
                }
            }
            utterances.reverse();
            Ok(utterances)
        }
        .boxed()
    }
}
