//! What the engine and the agents ask of conversations.

use agentd_engine::agents::{AgentDataPhase, AgentId, OwnsAgentData};
use agentd_engine::engine::{ConversationSummary, HistoryMessage, Reply, Settled, TurnSink};
use agentd_engine::projects::{NamesProjects, ProjectId};
use agentd_store::{StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};

use super::super::store::{self, purge_conversation};
use super::send::history_message;
use super::{Chat, TRANSCRIPT};

impl TurnSink for Chat {
    fn name(&self) -> &'static str {
        TRANSCRIPT
    }

    fn settle<'t>(&'t self, tx: &'t mut Tx, reply: &'t Reply) -> LocalBoxFuture<'t, Result<Settled, StoreError>> {
        Box::pin(async move {
            let (Some(conversation), Some(message)) = (&reply.conversation_id, &reply.message_id) else {
                return Ok(Settled::Ended);
            };
            let now = tx.clock().now();
            let usage = self.0.engine.turn_usage(tx, &reply.session_id).await?;
            store::settle_reply(tx, conversation, message, reply, usage.as_ref(), now).await?;
            Ok(Settled::Ended)
        })
    }

    fn keep_summary<'t>(
        &'t self,
        tx: &'t mut Tx,
        conversation_id: &'t str,
        summary: ConversationSummary<'t>,
    ) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(store::set_summary(tx, conversation_id, summary))
    }

    fn said_between<'t>(
        &'t self,
        conversation_id: &'t str,
        after: u64,
        before: u64,
    ) -> BoxFuture<'t, Result<Vec<(u64, HistoryMessage)>, StoreError>> {
        Box::pin(async move {
            let mut read = self.0.context.db.read().await?;
            let messages = store::list_between(&mut read, conversation_id, after, before).await?;
            Ok(messages.into_iter().map(|message| (message.position, history_message(message))).collect())
        })
    }
}

impl OwnsAgentData for Chat {
    fn name(&self) -> &'static str {
        "conversations"
    }

    fn phase(&self) -> AgentDataPhase {
        AgentDataPhase::Conversations
    }

    /// Nothing to write: a conversation is out of sight with its agent.
    fn hide<'t>(&'t self, _tx: &'t mut Tx, _agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move {
            // A batch of a conversation is up to 100 messages with their logs.
            let conversations = store::list_of_agent(tx, agent, (limit / 100).max(1)).await?;
            for id in &conversations {
                purge_conversation(tx, id).await?;
            }
            Ok(!conversations.is_empty())
        })
    }
}

impl NamesProjects for Chat {
    fn name(&self) -> &'static str {
        "conversations"
    }

    fn release<'t>(
        &'t self,
        tx: &'t mut Tx,
        project: &'t ProjectId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move { Ok(store::release_project(tx, project, limit).await? > 0) })
    }
}
