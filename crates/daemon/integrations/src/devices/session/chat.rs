//! A device talks to an agent: its message starts a turn, and the events come back.

use std::sync::Arc;

use agentd_base::{DomainError, ErrorKind};
use agentd_conversation::chat::{Chat, ChatError, ConversationId, ExecutionMode, SendMessage};
use agentd_store::Recorder;
use futures_util::StreamExt;

use crate::devices::connection::Connection;
use crate::devices::model::to_device;

/// Replies that one connection may follow at once.
pub(super) const MAX_REPLIES: usize = 8;

/// A message, and the frame's id.
#[derive(Debug)]
pub(super) struct ChatFrame {
    pub(super) id: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) content: String,
    pub(super) conversation_id: Option<String>,
}

/// Sends a message and passes the events of its reply on. The reply goes on when this is dropped.
pub(super) async fn talk(chat: Chat, connection: Arc<Connection>, frame: ChatFrame) {
    let id = frame.id.as_deref();
    let message = SendMessage {
        content: frame.content,
        conversation_id: frame.conversation_id.map(ConversationId::from),
        agent: frame.agent,
        model: None,
        // A device is another place than the owner's own: what acts asks first.
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
            tracing::error!(error = error as &dyn std::error::Error, "a device's message could not be sent");
            "something went wrong inside the daemon; its log explains it".to_owned()
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
