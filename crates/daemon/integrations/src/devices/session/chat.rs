//! Chat messages from a device: each starts a turn whose events are forwarded to the device.

use std::sync::Arc;

use agentd_base::{DomainError, ErrorKind};
use agentd_conversation::chat::{Chat, ChatError, ConversationId, ExecutionMode, SendMessage};
use agentd_store::Recorder;
use futures_util::StreamExt;

use crate::devices::connection::Connection;
use crate::devices::model::to_device;

/// Maximum number of replies that one connection follows concurrently.
pub(super) const MAX_REPLIES: usize = 8;

/// A chat message from a device with the id of its frame.
#[derive(Debug)]
pub(super) struct ChatFrame {
    pub(super) id: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) content: String,
    pub(super) conversation_id: Option<String>,
}

/// Sends a message and forwards the events of the reply. The reply continues when this is dropped.
pub(super) async fn forward_reply(chat: Chat, connection: Arc<Connection>, frame: ChatFrame) {
    let id = frame.id.as_deref();
    let message = SendMessage {
        content: frame.content,
        conversation_id: frame.conversation_id.map(ConversationId::from),
        agent: frame.agent,
        model: None,
        // The owner is not necessarily at the device, so tools that act require approval.
        execution_mode: Some(ExecutionMode::ApprovalRequired),
        device: Some(connection.device.id.to_string()),
        key_id: None,
        channel: None,
    };
    let session = match chat.send(message, Recorder::none()).await {
        Ok(session) => session,
        Err(error) => {
            let (code, sentence) = explain(&error);
            connection.send_error(id, code, &sentence).await;
            return;
        }
    };
    let mut events = std::pin::pin!(chat.follow(&session, None));
    while let Some(event) = events.next().await {
        let frame = to_device::event(id, session.as_str(), event.seq, event.kind.as_str(), &event.data);
        if connection.outgoing.send(frame).await.is_err() {
            return;
        }
    }
}

fn explain(error: &ChatError) -> (&'static str, String) {
    let sentence = match error.kind() {
        ErrorKind::Internal => {
            tracing::error!(error = error as &dyn std::error::Error, "failed to send device message");
            "internal error; see the log of the daemon".to_owned()
        }
        ErrorKind::Invalid(fields) if !fields.is_empty() => {
            let fields: Vec<String> =
                fields.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect();
            fields.join("; ")
        }
        _ => error.to_string(),
    };
    (error.code(), sentence)
}
