//! Handlers to follow, trace and cancel sessions.

use agentd_base::{FieldProblem, Timestamp};
use agentd_engine::engine::{Session, SessionId, SessionStatus, SessionTrace};
use agentd_web::{ApiError, ApiResult, ErrorBody, Json, Path, Query};
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::messages::event_stream;
use crate::chat::service::Chat;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// Sequence number of the last received event, for clients that cannot send `Last-Event-ID`.
    #[param(minimum = 0)]
    last_event_id: Option<u64>,
}

/// Running or finished reply.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionView {
    id: SessionId,
    /// Id of the conversation; null for a turn outside of conversations, such as a welcome.
    conversation_id: Option<String>,
    /// Id of the message that contains the reply; null outside of conversations.
    message_id: Option<String>,
    status: SessionStatus,
    started_at: Timestamp,
    /// Time when the reply ended; null while it runs.
    completed_at: Option<Timestamp>,
}

impl From<Session> for SessionView {
    fn from(session: Session) -> Self {
        Self {
            id: session.id,
            conversation_id: session.conversation_id,
            message_id: session.message_id,
            status: session.status,
            started_at: session.started_at,
            completed_at: session.completed_at,
        }
    }
}

/// Stream a session
///
/// Sends the same events as `POST /api/chat/messages/stream`, starting after `Last-Event-ID` or from the beginning, and
/// then live. The log is retained for 24 hours after the session ends.
#[utoipa::path(get, path = "/api/chat/sessions/{session_id}/stream", operation_id = "stream_session", tag = "chat",
    params(("session_id" = String, Path, description = "Id of the session"), StreamQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "Sequence number of the last received event")),
    responses((status = 200, body = String, content_type = "text/event-stream", description = "The reply"),
        (status = 404, body = ErrorBody, description = "Session not found, or its messages were deleted")))]
pub(super) async fn stream_session(
    State(chat): State<Chat>,
    Path(id): Path<SessionId>,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let seen = match headers.get("last-event-id") {
        Some(header) => Some(parse_event_id(header)?),
        None => query.last_event_id,
    };
    let session = chat.session_after(&id, seen).await?;
    Ok(event_stream(chat.engine().follow(&session.id, seen)))
}

fn parse_event_id(header: &http::HeaderValue) -> ApiResult<u64> {
    let parsed = header.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
    let problem = || FieldProblem {
        field: "Last-Event-ID".to_owned(),
        message: "must be the `id` of an event of this session".to_owned(),
    };
    parsed.ok_or_else(|| ApiError::invalid(vec![problem()]))
}

/// Get a session trace
///
/// Returns the turn as a tree of spans: model calls, tools, approvals and recall, with start, duration, tokens, cost
/// and error. Available for 24 hours after the turn ends; a running turn shows its stored spans. Unknown values are
/// null.
#[utoipa::path(get, path = "/api/chat/sessions/{session_id}/trace", operation_id = "get_session_trace", tag = "chat",
    params(("session_id" = String, Path, description = "Id of the session")),
    responses((status = 200, body = SessionTrace),
        (status = 404, body = ErrorBody, description = "Session not found, or its messages were deleted")))]
pub(super) async fn get_session_trace(
    State(chat): State<Chat>,
    Path(id): Path<SessionId>,
) -> ApiResult<Json<SessionTrace>> {
    Ok(Json(chat.trace(&id).await?))
}

/// Cancel a session
///
/// Stops the reply; the text written so far is retained.
#[utoipa::path(post, path = "/api/chat/sessions/{session_id}/cancel", operation_id = "cancel_session", tag = "chat",
    params(("session_id" = String, Path, description = "Id of the session")),
    responses((status = 200, body = SessionView),
        (status = 409, body = ErrorBody, description = "The session has already ended")))]
pub(super) async fn cancel_session(
    State(chat): State<Chat>,
    Path(id): Path<SessionId>,
) -> ApiResult<Json<SessionView>> {
    Ok(Json(chat.cancel_session(&id).await?.into()))
}
