//! The logs of replies: follow again, and cancel.

use std::fmt::Write as _;

use agentd_base::{FieldProblem, Timestamp};
use agentd_engine::engine::{Session, SessionEvent, SessionId, SessionStatus, SessionTrace};
use agentd_web::{ApiError, ApiResult, ErrorBody, Json, Path, Query};
use axum::extract::State;
use axum::response::Response;
use futures_util::Stream;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::chat::service::Chat;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// The number of the last event that was seen, for pages that cannot send `Last-Event-ID`.
    #[param(minimum = 0)]
    last_event_id: Option<u64>,
}

/// A running or ended reply.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionView {
    id: SessionId,
    conversation_id: Option<String>,
    message_id: Option<String>,
    status: SessionStatus,
    started_at: Timestamp,
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

/// Show a reply again and go on live
///
/// The same events as `POST /api/chat/messages/stream`, from the one after `Last-Event-ID`, or all of them. The log is
/// kept for 24 hours after its end.
#[utoipa::path(get, path = "/api/chat/sessions/{session_id}/stream", operation_id = "stream_session", tag = "chat",
    params(("session_id" = String, Path), StreamQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The number of the last event that was seen")),
    responses((status = 200, body = String, content_type = "text/event-stream", description = "The reply"),
        (status = 404, body = ErrorBody, description = "There is no such session, or what it shows was deleted")))]
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

/// Show what a turn did, when, and what it cost
///
/// The turn as a tree: attempts at calls of the model, tools, what the owner was asked, and recalling, with start,
/// duration, tokens, cost and error. It stands as long as the log, 24 hours after the turn's end; while the turn runs it
/// shows what is stored so far. What is not known is null.
#[utoipa::path(get, path = "/api/chat/sessions/{session_id}/trace", operation_id = "get_session_trace", tag = "chat",
    params(("session_id" = String, Path)), responses((status = 200, body = SessionTrace),
        (status = 404, body = ErrorBody, description = "There is no such session, or what it shows was deleted")))]
pub(super) async fn get_session_trace(
    State(chat): State<Chat>,
    Path(id): Path<SessionId>,
) -> ApiResult<Json<SessionTrace>> {
    Ok(Json(chat.trace(&id).await?))
}

/// Stop a reply; what was written is kept
#[utoipa::path(post, path = "/api/chat/sessions/{session_id}/cancel", operation_id = "cancel_session", tag = "chat",
    params(("session_id" = String, Path)), responses((status = 200, body = SessionView),
        (status = 409, body = ErrorBody, description = "It is over already")))]
pub(super) async fn cancel_session(
    State(chat): State<Chat>,
    Path(id): Path<SessionId>,
) -> ApiResult<Json<SessionView>> {
    Ok(Json(chat.cancel_session(&id).await?.into()))
}

/// Streams `events` as Server-Sent Events with their sequence number as `id`.
pub(super) fn event_stream(events: impl Stream<Item = SessionEvent> + Send + 'static) -> Response {
    agentd_web::event_stream(events, render)
}

fn render(event: &SessionEvent, text: &mut String) {
    // JSON holds no line breaks, so one `data` line is enough. Writing into a string does not fail.
    let _ = write!(text, "id: {}\nevent: {}\ndata: {}\n\n", event.seq, event.kind.as_str(), event.data);
}
