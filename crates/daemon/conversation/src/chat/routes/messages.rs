//! Messages: send, inject, truncate; and the welcome.

use agentd_base::Timestamp;
use agentd_core::runtime::{record_once, record_stream_once};
use agentd_engine::engine::{CallRecord, SessionId, TurnUsage};
use agentd_web::{ApiResult, Caller, DoneAnew, ErrorBody, IdempotencyKey, Json, ReattachTo};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::sessions::event_stream;
use crate::chat::error::ChatError;
use crate::chat::message_parts::MessagePart;
use crate::chat::model::{ConversationId, Cut, Message, MessageId, MessageStatus, Role};
use crate::chat::service::{Chat, InjectMessage, SendMessage};

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MessageView {
    id: MessageId,
    conversation_id: ConversationId,
    role: Role,
    content: String,
    status: MessageStatus,
    /// Text, tool calls and approvals in the order in which they came. `content` is all the text.
    parts: Vec<MessagePart>,
    /// The tools that were used for it.
    tool_calls: Vec<CallRecord>,
    /// The agent that wrote a reply. Like the following fields, it is null for other messages.
    agent_id: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    /// Tokens of all model calls of the turn, up to now while it runs.
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    /// In US dollars; null where the price of a call is not known.
    cost_estimate: Option<f64>,
    /// From the start of the turn to its end; null while it runs.
    duration_ms: Option<u64>,
    /// The turn that wrote it, or that it began: its events and its trace can be had for a day after its end.
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

/// A message that is to be answered.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct StreamMessage {
    #[schema(min_length = 1, max_length = 400_000, example = "What is the capital of France?")]
    content: String,
    /// Left out: a new conversation.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    conversation_id: Option<String>,
    /// Id or svc_name, for a new conversation; left out: the default agent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// Goes before the agent's and the settings' model.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct InjectedMessage {
    #[schema(min_length = 1, max_length = 64)]
    conversation_id: String,
    role: Role,
    #[schema(min_length = 1, max_length = 400_000)]
    content: String,
}

/// Either `after_message_id` or `keep_last`.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Truncation {
    #[schema(min_length = 1, max_length = 64)]
    conversation_id: String,
    /// Removes everything after this message.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    after_message_id: Option<String>,
    /// Removes everything but the last so many messages.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    keep_last: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Truncated {
    /// How many messages.
    removed: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct WelcomeFields {
    /// Id or svc_name; left out: the default agent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Welcome {
    message: String,
}

impl StreamMessage {
    fn sent_by(self, caller: &Caller) -> SendMessage {
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

/// Send a message; the answer is the reply as Server-Sent Events
///
/// Events, each with its number as `id`: `start {conversation_id, message_id, session_id}`, `token {content}` for each
/// piece that the model sends, `tool_use {tool, input, call_id, round}` before a tool runs and
/// `tool_result {tool, output, call_id, round, status, untrusted_source}` after it, `approval_request {approval_id,
/// tool, input, input_sha256, call_id, expires_at, untrusted_sources, request_reason}` where the owner is asked, then
/// `done {message_id, provider, model, input_tokens, output_tokens, total_tokens, finish_reason}` or
/// `error {code, message}`. A
/// `finish_reason` of `length` says that the output limit cut the answer off, otherwise it is `stop`. Codes are
/// `rate_limit`, `auth`, `overloaded`, `context_length`, `provider_unavailable`, `no_answer` (the model or a content
/// filter refused, or the output limit was reached before the first word), `timeout`, `cancelled`, `tool_limit`,
/// `internal`. A comment every 15 seconds keeps proxies from closing. A client
/// that goes away does not stop the reply; `GET /api/chat/sessions/{session_id}/stream` shows it again. One reply at a
/// time is written in a conversation: a second message meanwhile answers 409 `turn_in_progress`. Sent again with the
/// same `Idempotency-Key`, it shows the same reply from its beginning.
#[utoipa::path(post, path = "/api/chat/messages/stream", operation_id = "stream_message", tag = "chat",
    request_body = StreamMessage, params(IdempotencyKey), responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "The reply"),
        (status = 404, body = ErrorBody, description = "There is no such conversation or agent"),
        (status = 409, body = ErrorBody, description = "A reply is being written in this conversation"),
        (status = 429, body = ErrorBody, description = "The token budget is used up")))]
pub(super) async fn stream_message(
    State(chat): State<Chat>,
    caller: Caller,
    once: IdempotencyKey,
    again: Option<Extension<ReattachTo>>,
    Json(message): Json<StreamMessage>,
) -> ApiResult<Response> {
    let session = match again {
        Some(Extension(ReattachTo(id))) => chat.session(&id.into()).await?.id,
        None => {
            let message = message.sent_by(&caller);
            chat.send(message, record_stream_once(&once, |session: &SessionId| session.to_string())).await?
        }
    };
    Ok(event_stream(chat.engine().follow(&session, None)))
}

/// Put a message into a conversation without an answer
#[utoipa::path(post, path = "/api/chat/messages/inject", operation_id = "inject_message", tag = "chat",
    request_body = InjectedMessage, params(IdempotencyKey), responses((status = 201, body = MessageView),
        (status = 404, body = ErrorBody, description = "There is no such conversation")))]
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

/// Remove messages of a conversation, from its end or from its beginning
#[utoipa::path(post, path = "/api/chat/messages/truncate", operation_id = "truncate_messages", tag = "chat",
    request_body = Truncation, responses((status = 200, body = Truncated),
        (status = 404, body = ErrorBody, description = "There is no such conversation or message"),
        (status = 409, body = ErrorBody, description = "A reply is being written in this conversation")))]
pub(super) async fn truncate_messages(
    State(chat): State<Chat>,
    Json(wanted): Json<Truncation>,
) -> ApiResult<Json<Truncated>> {
    let cut = match (wanted.after_message_id, wanted.keep_last) {
        (Some(message), None) => Cut::After(message.into()),
        (None, Some(keep)) => Cut::KeepLast(keep),
        _ => {
            return Err(ChatError::invalid("after_message_id", "give either after_message_id or keep_last").into());
        }
    };
    Ok(Json(Truncated { removed: chat.truncate(&wanted.conversation_id.into(), cut).await? }))
}

/// Let an agent write a welcome message
///
/// It belongs to no conversation; put it into one with `POST /api/chat/messages/inject`. When the client goes away it is
/// cancelled, and a repeat has it written anew.
#[utoipa::path(post, path = "/api/chat/welcome", operation_id = "create_welcome", tag = "chat",
    request_body = WelcomeFields, params(IdempotencyKey), responses((status = 200, body = Welcome),
        (status = 404, body = ErrorBody, description = "There is no such agent"),
        (status = 429, body = ErrorBody, description = "The token budget or the provider's rate limit is used up"),
        (status = 502, body = ErrorBody, description = "The model gave no answer")))]
pub(super) async fn create_welcome(
    State(chat): State<Chat>,
    caller: Caller,
    once: IdempotencyKey,
    again: Option<Extension<ReattachTo>>,
    Json(fields): Json<WelcomeFields>,
) -> ApiResult<Response> {
    let earlier = again.map(|Extension(ReattachTo(id))| SessionId::from(id));
    if let Some(earlier) = &earlier
        && let Some(message) = chat.await_welcome(earlier).await?
    {
        return Ok(Json(Welcome { message }).into_response());
    }
    let is_anew = earlier.is_some();
    let recorder = record_stream_once(&once, |session: &SessionId| session.to_string());
    let welcome = chat.welcome(fields.agent_id.as_deref(), caller.key_id(), recorder, earlier);
    let message = Json(Welcome { message: welcome.await? });
    Ok(if is_anew { (Extension(DoneAnew), message).into_response() } else { message.into_response() })
}
