//! HTTP endpoint of the event stream.

use std::fmt::Write as _;

use agentd_base::FieldProblem;
use agentd_web::{ApiError, ApiResult, ApiRouter, Caller, ErrorBody, Query, Routes, event_stream, routes};
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use utoipa::IntoParams;

use super::model::TypeFilter;
use super::service::{Events, StreamEvent};

/// Route of the event stream.
#[must_use]
pub(super) fn routes() -> Routes<Events> {
    Routes::new().streams(ApiRouter::new().routes(routes!(stream_events)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct FollowQuery {
    /// Comma-separated event types or type prefixes, such as `task,alert.firing`. Default: all types.
    #[param(max_length = 1000)]
    types: Option<String>,
    /// `id` of the last received event, for clients that cannot send the header `Last-Event-ID`.
    #[param(max_length = 200)]
    last_event_id: Option<String>,
}

/// Stream events
///
/// Server-Sent Events: stored events, each with an `id`, and live events without an `id` (`turn.tool_use`,
/// `turn.tool_result`, `delivery.changed`). `data` is `{id?, type, timestamp, data}`. The first event is `ready`. With
/// `Last-Event-ID`, the stream resumes after that event. If that position is no longer available or too many events
/// were missed, the server sends `reset` and the client must reload its state. A client that reads too slowly is
/// disconnected and can reconnect.
#[utoipa::path(get, path = "/api/events/stream", operation_id = "stream_events", tag = "events",
    params(FollowQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "`id` of the last received event")),
    responses((status = 200, body = String, content_type = "text/event-stream", description = "Stream of events"),
        (status = 429, body = ErrorBody, description = "Too many open streams")))]
async fn stream_events(
    State(events): State<Events>,
    caller: Caller,
    Query(query): Query<FollowQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let filter = TypeFilter::parse(query.types.as_deref().unwrap_or_default())
        .map_err(|message| ApiError::invalid(vec![FieldProblem { field: "types".to_owned(), message }]))?;
    // A header that is not text becomes an empty id, which is answered with `reset`.
    let header = headers.get("last-event-id").map(|header| header.to_str().unwrap_or_default());
    let last = header.or(query.last_event_id.as_deref()).filter(|last| !last.is_empty());
    Ok(event_stream(events.follow(&caller.credential_id, filter, last).await?, render))
}

fn render(event: &StreamEvent, text: &mut String) {
    // JSON holds no line breaks, so one `data` line is enough. Writing into a string does not fail.
    if let Some(id) = &event.id {
        let _ = writeln!(text, "id: {id}");
    }
    let _ = write!(text, "event: {}\ndata: {}\n\n", event.event_type, event.data);
}
