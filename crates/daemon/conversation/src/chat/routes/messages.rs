//! Handlers to send, inject and truncate messages, and to write a welcome.

use std::fmt::Write as _;

use agentd_base::Timestamp;
use agentd_core::runtime::{record_once, record_stream_once};
use agentd_engine::engine::{CallRecord, SessionEvent, SessionId, TurnUsage};
use agentd_web::{ApiResult, Caller, ErrorBody, IdempotencyKey, Json, NotReplayed, ReattachTo};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::chat::error::ChatError;
use crate::chat::message_parts::MessagePart;
use crate::chat::model::{ConversationId, Cut, Message, MessageId, MessageStatus, Role};
use crate::chat::service::{Chat, InjectMessage, SendMessage};

/// Message of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MessageView {
    id: MessageId,
    conversation_id: ConversationId,
    role: Role,
    /// Complete text, without tool calls; empty if the reply has no text yet.
    content: String,
    status: MessageStatus,
    /// Text, tool calls and approvals in chronological order. `content` is the complete text.
    parts: Vec<MessagePart>,
    /// Tool calls of the turn in chronological order; empty if no tool was used.
    tool_calls: Vec<CallRecord>,
    /// Id of the agent that wrote the reply. Null for messages that are not replies, as are the provider, model, token,
    /// cost and duration fields.
    agent_id: Option<String>,
    /// Id of the model provider, such as `openai` or `local`.
    provider: Option<String>,
    /// Name of the model that wrote the reply.
    model: Option<String>,
    /// Number of input tokens of all model calls of the turn so far.
    input_tokens: Option<u64>,
    /// Number of output tokens of all model calls of the turn so far.
    output_tokens: Option<u64>,
    /// Cost in US dollars; null if the price of a call is unknown.
    cost_estimate: Option<f64>,
    /// Duration of the turn in milliseconds, including waits for approvals; null while it runs.
    duration_ms: Option<u64>,
    /// Session that wrote the message or was started by it. Its events and trace are available for 24 hours after its
    /// end.
    session_id: Option<String>,
    created_at: Timestamp,
}

impl From<Message> for MessageView {
    fn from(message: Message) -> Self {
        let usage = message.usage.as_ref();
        Self {
            parts: message.parts(),
            agent_id: usage.map(|usage| usage.agent_id.to_string()),
            provider: usage.map(|usage| usage.provider.clone()),
            model: usage.map(|usage| usage.model.clone()),
            input_tokens: usage.map(|usage| usage.input_tokens),
            output_tokens: usage.map(|usage| usage.output_tokens),
            cost_estimate: usage.and_then(TurnUsage::cost_estimate),
            duration_ms: usage.and_then(|usage| usage.duration_ms),
            id: message.id,
            conversation_id: message.conversation_id,
            role: message.role,
            content: message.content,
            status: message.status,
            tool_calls: message.rounds.into_iter().flat_map(|round| round.calls).collect(),
            session_id: message.session_id.map(|id| id.to_string()),
            created_at: message.created_at,
        }
    }
}

/// Message to be answered.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct StreamMessage {
    /// Text of the message, 1 to 400,000 characters, not only whitespace.
    #[schema(min_length = 1, max_length = 400_000, example = "What is the capital of France?")]
    content: String,
    /// Id of the conversation to continue. Default: a new conversation.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    conversation_id: Option<String>,
    /// Id or svc_name of the agent of a new conversation. Default: the default agent. In an existing conversation, only
    /// its own agent is accepted.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// Name of the model for this message only, up to 200 characters. Default: the agent's model, else the default
    /// model.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
}

/// Message to add without a reply.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct InjectedMessage {
    /// Id of the conversation to add the message to.
    #[schema(min_length = 1, max_length = 64)]
    conversation_id: String,
    /// Author of the message; `system` adds it to the system prompt.
    role: Role,
    /// Text of the message, 1 to 400,000 characters, not only whitespace.
    #[schema(min_length = 1, max_length = 400_000)]
    content: String,
}

/// Messages to remove; set either `after_message_id` or `keep_last`.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Truncation {
    /// Id of the conversation to truncate.
    #[schema(min_length = 1, max_length = 64)]
    conversation_id: String,
    /// Id of the last message to keep; all messages after it are removed.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    after_message_id: Option<String>,
    /// Number of messages to keep at the end, 0 to 1,000,000,000; all messages before them are removed.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    keep_last: Option<u64>,
}

/// Result of a truncation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Truncated {
    /// Number of removed messages.
    removed: u64,
}

/// Request for a welcome message.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct WelcomeFields {
    /// Id or svc_name of the agent that writes it. Default: the default agent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
}

/// Welcome message of an agent.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Welcome {
    /// Text of one or two sentences.
    message: String,
}

impl StreamMessage {
    fn into_send_message(self, caller: &Caller) -> SendMessage {
        SendMessage {
            content: self.content,
            conversation_id: self.conversation_id.map(ConversationId::from),
            agent: self.agent_id,
            model: self.model,
            execution_mode: None,
            device: None,
            key_id: caller.key_id(),
            channel: None,
        }
    }
}

/// Stream the reply to a message
///
/// The reply is a stream of Server-Sent Events, each with its sequence number as `id`: `start {conversation_id,
/// message_id, session_id}`, `token {content}` for each piece of text, `tool_use {tool, input, call_id, round}` before
/// a tool runs and `tool_result {tool, output, call_id, round, status, untrusted_source}` after it, `approval_request
/// {approval_id, tool, input, input_sha256, call_id, expires_at, untrusted_sources, request_reason}` when the owner is
/// asked, and finally `done {message_id, provider, model, input_tokens, output_tokens, total_tokens, finish_reason}` or
/// `error {code, message}`. A `finish_reason` of `length` means that the output limit truncated the reply; otherwise it
/// is `stop`. Error codes are `rate_limit`, `auth`, `overloaded`, `context_length`, `provider_unavailable`, `no_answer`
/// (the model or a content filter refused, or the output limit was reached before the first word), `timeout`,
/// `cancelled`, `tool_limit` and `internal`. A comment every 15 seconds keeps proxies from closing the connection.
///
/// The reply continues if the client disconnects; follow it with `GET /api/chat/sessions/{session_id}/stream`. A second
/// message while a reply is written is rejected with 409 `turn_in_progress`. A request repeated with the same
/// `Idempotency-Key` streams the same reply from its beginning.
#[utoipa::path(post, path = "/api/chat/messages/stream", operation_id = "stream_message", tag = "chat",
    request_body = StreamMessage, params(IdempotencyKey), responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "The reply"),
        (status = 404, body = ErrorBody, description = "Conversation or agent not found"),
        (status = 409, body = ErrorBody, description = "A reply is being written in this conversation"),
        (status = 429, body = ErrorBody, description = "The token budget is used up")))]
pub(super) async fn stream_message(
    State(chat): State<Chat>,
    caller: Caller,
    once: IdempotencyKey,
    reattach: Option<Extension<ReattachTo>>,
    Json(message): Json<StreamMessage>,
) -> ApiResult<Response> {
    let session = match reattach {
        Some(Extension(ReattachTo(id))) => chat.session(&id.into()).await?.id,
        None => {
            let message = message.into_send_message(&caller);
            chat.send(message, record_stream_once(&once, |session: &SessionId| session.to_string())).await?
        }
    };
    Ok(event_stream(chat.engine().follow(&session, None)))
}

/// Inject a message
///
/// Adds a message to a conversation without starting a reply.
#[utoipa::path(post, path = "/api/chat/messages/inject", operation_id = "inject_message", tag = "chat",
    request_body = InjectedMessage, params(IdempotencyKey), responses((status = 201, body = MessageView),
        (status = 404, body = ErrorBody, description = "Conversation not found")))]
pub(super) async fn inject_message(
    State(chat): State<Chat>,
    once: IdempotencyKey,
    Json(message): Json<InjectedMessage>,
) -> ApiResult<(StatusCode, Json<MessageView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, |message: &Message| MessageView::from(message.clone()));
    let wanted =
        InjectMessage { conversation_id: message.conversation_id.into(), role: message.role, content: message.content };
    Ok((StatusCode::CREATED, Json(chat.inject(wanted, recorder).await?.into())))
}

/// Truncate a conversation
///
/// Removes messages from its end or its beginning. Removed messages cannot be restored.
#[utoipa::path(post, path = "/api/chat/messages/truncate", operation_id = "truncate_messages", tag = "chat",
    request_body = Truncation, responses((status = 200, body = Truncated),
        (status = 404, body = ErrorBody, description = "Conversation or message not found"),
        (status = 409, body = ErrorBody, description = "A reply is being written in this conversation")))]
pub(super) async fn truncate_messages(
    State(chat): State<Chat>,
    Json(wanted): Json<Truncation>,
) -> ApiResult<Json<Truncated>> {
    let cut = match (wanted.after_message_id, wanted.keep_last) {
        (Some(message), None) => Cut::After(message.into()),
        (None, Some(keep)) => Cut::KeepLast(keep),
        _ => {
            return Err(
                ChatError::invalid("after_message_id", "set exactly one of after_message_id and keep_last").into()
            );
        }
    };
    Ok(Json(Truncated { removed: chat.truncate(&wanted.conversation_id.into(), cut).await? }))
}

/// Create a welcome message
///
/// Lets an agent write a welcome outside of any conversation; add it to one with `POST /api/chat/messages/inject`. The
/// call is cancelled when the client disconnects, and a retry writes a new welcome.
#[utoipa::path(post, path = "/api/chat/welcome", operation_id = "create_welcome", tag = "chat",
    request_body = WelcomeFields, params(IdempotencyKey), responses((status = 200, body = Welcome),
        (status = 404, body = ErrorBody, description = "Agent not found"),
        (status = 429, body = ErrorBody, description = "The token budget or the provider's rate limit is used up"),
        (status = 502, body = ErrorBody, description = "The model did not answer")))]
pub(super) async fn create_welcome(
    State(chat): State<Chat>,
    caller: Caller,
    once: IdempotencyKey,
    reattach: Option<Extension<ReattachTo>>,
    Json(fields): Json<WelcomeFields>,
) -> ApiResult<Response> {
    let earlier = reattach.map(|Extension(ReattachTo(id))| SessionId::from(id));
    if let Some(earlier) = &earlier
        && let Some(message) = chat.await_welcome(earlier).await?
    {
        return Ok(Json(Welcome { message }).into_response());
    }
    let is_retry = earlier.is_some();
    let recorder = record_stream_once(&once, |session: &SessionId| session.to_string());
    let welcome = chat.welcome(fields.agent_id.as_deref(), caller.key_id(), recorder, earlier);
    let message = Json(Welcome { message: welcome.await? });
    Ok(if is_retry { (Extension(NotReplayed), message).into_response() } else { message.into_response() })
}

/// Streams `events` as Server-Sent Events with their sequence number as `id`.
pub(super) fn event_stream(events: impl Stream<Item = SessionEvent> + Send + 'static) -> Response {
    agentd_web::event_stream(events, render)
}

fn render(event: &SessionEvent, text: &mut String) {
    // JSON contains no raw line breaks, so one `data` line suffices. Writing to a string cannot fail.
    let _ = write!(text, "id: {}\nevent: {}\ndata: {}\n\n", event.seq, event.kind.as_str(), event.data);
}
