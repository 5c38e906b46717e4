//! What channels hear of their turns' ends.

use agentd_conversation::chat::CHANNEL_TRANSCRIPT;
use agentd_engine::agents::{AgentId, OwnsAgentData};
use agentd_engine::engine::{ConversationSummary, HistoryMessage, Reply, SessionStatus, Settled, TurnSink};
use agentd_store::{StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};

use super::model::MessageEnd;
use super::service::{Channels, MessageDetails};
use super::store;

/// The conversation keeps the reply as it keeps any; besides, it is sent.
impl TurnSink for Channels {
    fn name(&self) -> &'static str {
        CHANNEL_TRANSCRIPT
    }

    fn settle<'t>(&'t self, tx: &'t mut Tx, reply: &'t Reply) -> LocalBoxFuture<'t, Result<Settled, StoreError>> {
        Box::pin(async move {
            let settled = self.uses().chat.settle(tx, reply).await?;
            let Some(message) = store::find_running(tx, reply.session_id.as_str()).await? else { return Ok(settled) };
            let Some((status, text)) = answer(reply) else { return Ok(settled) };
            let error = reply.error.as_ref().map(|error| format!("{}: {}", error.code, error.message));
            store::update_ended(tx, &message.id, status, error.as_deref()).await?;
            let details = MessageDetails::new(message.reply_to.clone());
            let key = format!("channel:{}", message.id);
            self.send_in(tx, message.platform, &details, &text, key, None).await?;
            Ok(settled)
        })
    }

    fn keep_summary<'t>(
        &'t self,
        tx: &'t mut Tx,
        conversation_id: &'t str,
        summary: ConversationSummary<'t>,
    ) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        self.uses().chat.keep_summary(tx, conversation_id, summary)
    }

    fn said_between<'t>(
        &'t self,
        conversation_id: &'t str,
        after: u64,
        before: u64,
    ) -> BoxFuture<'t, Result<Vec<(u64, HistoryMessage)>, StoreError>> {
        self.uses().chat.said_between(conversation_id, after, before)
    }
}

impl OwnsAgentData for Channels {
    fn name(&self) -> &'static str {
        "channels"
    }

    /// Nothing to write: a channel whose agent is gone says so to whoever writes there.
    fn hide<'t>(&'t self, _tx: &'t mut Tx, _agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn purge<'t>(
        &'t self,
        tx: &'t mut Tx,
        agent: &'t AgentId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move { Ok(store::purge_of_agent(tx, agent, limit).await? > 0) })
    }
}

/// What became of the message, and what its sender reads. `None`: it goes on.
fn answer(reply: &Reply) -> Option<(MessageEnd, String)> {
    let note = match reply.status {
        SessionStatus::Running => return None,
        SessionStatus::Done if reply.content.trim().is_empty() => "I have nothing to say to that.",
        SessionStatus::Done => return Some((MessageEnd::Answered, reply.content.clone())),
        SessionStatus::Failed => "I cannot answer that now. The owner finds the reason with the conversation.",
        SessionStatus::Cancelled => "I was stopped.",
        SessionStatus::Interrupted => "I was interrupted; write it again if you still want an answer.",
    };
    let status = if reply.status == SessionStatus::Done { MessageEnd::Answered } else { MessageEnd::Failed };
    let said = reply.content.trim_end();
    Some((status, if said.is_empty() { note.to_owned() } else { format!("{said}\n\n{note}") }))
}
