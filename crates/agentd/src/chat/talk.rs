//! What was said lately, for an agent that learns from it.

use agentd_base::Timestamp;
use agentd_store::StoreError;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::model::Role;
use super::service::Chat;
use super::store;
use crate::agents::AgentId;
use crate::evolution::{Author, RecentTalk, Said};

const CONVERSATIONS: u32 = 20;
const MESSAGES_A_CONVERSATION: u32 = 50;
/// A longer message shows its beginning.
const MESSAGE_CHARACTERS: u32 = 2_000;

impl RecentTalk for Chat {
    fn newest<'t>(
        &'t self,
        agent: &'t AgentId,
        since: Option<Timestamp>,
        max_characters: usize,
    ) -> BoxFuture<'t, Result<Vec<Said>, StoreError>> {
        async move {
            let since = since.unwrap_or_default();
            let mut read = self.context().db.read().await?;
            let mut left = max_characters;
            let mut talk = Vec::new();
            for id in store::list_changed_since(&mut read, agent, since, CONVERSATIONS).await? {
                let spoken =
                    store::list_spoken_since(&mut read, &id, since, MESSAGES_A_CONVERSATION, MESSAGE_CHARACTERS)
                        .await?;
                for message in spoken {
                    let characters = message.text.chars().count();
                    if characters > left {
                        // Collected newest first.
                        talk.reverse();
                        return Ok(talk);
                    }
                    left -= characters;
                    let author = match message.role {
                        Role::User => Author::Owner,
                        Role::Assistant | Role::System => Author::Agent,
                    };
                    talk.push(Said { conversation_id: id.to_string(), author, text: message.text, at: message.at });
                }
            }
            talk.reverse();
            Ok(talk)
        }
        .boxed()
    }
}
