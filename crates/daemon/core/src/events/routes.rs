//! `/api/events/stream`.

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

/// The stream of events.
#[must_use]
pub(super) fn routes() -> Routes<Events> {
    Routes::new().streams(ApiRouter::new().routes(routes!(stream_events)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct FollowQuery {
    /// Types of events, or first parts of them, with commas between: `task,alert.firing`. All where it is left out.
    #[param(max_length = 1000)]
    types: Option<String>,
    /// The `id` of the last event that was seen, for pages that cannot send `Last-Event-ID`.
    #[param(max_length = 200)]
    last_event_id: Option<String>,
}

/// Follow what happens
///
/// Server-Sent Events, one stream for a whole page: the events of hooks as they are stored, each with an `id`, and what
/// is told without being stored (`turn.tool_use`, `turn.tool_result`, `delivery.changed`), without one. `data` is
/// `{id?, type, timestamp, data}`. First comes `ready`. After a break the stream goes on behind `Last-Event-ID`; where
/// that is not kept any more, or too much was missed, comes `reset`: load anew what is shown. Whoever reads too slowly
/// is cut off, and opens it again.
#[utoipa::path(get, path = "/api/events/stream", operation_id = "stream_events", tag = "events",
    params(FollowQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that was seen")),
    responses((status = 200, body = String, content_type = "text/event-stream", description = "What happens"),
        (status = 429, body = ErrorBody, description = "Too many streams are open")))]
async fn stream_events(
    State(events): State<Events>,
    caller: Caller,
    Query(query): Query<FollowQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let filter = TypeFilter::parse(query.types.as_deref().unwrap_or_default())
        .map_err(|message| ApiError::invalid(vec![FieldProblem { field: "types".to_owned(), message }]))?;
    // One that is no text is no place, which is answered with `reset`.
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
