//! `/api/scheduler/proactive`.

use agentd_base::{Page, PageLimits, Problems, Timestamp};
use agentd_engine::agents::AgentId;
use agentd_web::{ApiError, ApiResult, ApiRouter, ErrorBody, Json, Query, Routes, routes};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::model::{CauseKind, ProactiveTurn, ProactiveTurnId, TurnStatus};
use super::service::Proactive;

#[must_use]
pub(super) fn routes() -> Routes<Proactive> {
    Routes::new().protected(ApiRouter::new().routes(routes!(list_proactive_turns)))
}

/// A turn that an agent started on its own.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ProactiveTurn)]
struct TurnView {
    id: ProactiveTurnId,
    agent_id: AgentId,
    /// Date that the turn counts for, as `YYYY-MM-DD` in the profile's time zone.
    #[schema(example = "2026-01-31")]
    day: String,
    cause: CauseKind,
    /// Id of the failed run, or the days and time of the suggestion.
    cause_id: String,
    /// Job of the failed run; null for a suggestion.
    #[schema(required)]
    job_id: Option<String>,
    /// Subject of the message to the owner.
    subject: String,
    /// Error of the failed run, or the reason for the suggestion; at most 2,000 bytes.
    reason: String,
    status: TurnStatus,
    /// Session of the turn; its log is available at `/api/chat/sessions/{session_id}/stream` for one day. Null if the
    /// turn has no session.
    #[schema(required)]
    session_id: Option<String>,
    /// Output of the agent, truncated to 65,536 bytes; null if there is none.
    #[schema(required)]
    output: Option<String>,
    /// Error code and message of a failed turn; null if there was no error.
    #[schema(required)]
    error: Option<String>,
    started_at: Timestamp,
    /// Time at which the turn ended; null while running.
    #[schema(required)]
    completed_at: Option<Timestamp>,
}

impl From<ProactiveTurn> for TurnView {
    fn from(turn: ProactiveTurn) -> Self {
        Self {
            id: turn.id,
            agent_id: turn.agent_id,
            day: turn.day,
            cause: turn.cause,
            cause_id: turn.cause_id,
            job_id: turn.job_id,
            subject: turn.subject,
            reason: turn.reason,
            status: turn.status,
            session_id: turn.session_id,
            output: turn.output,
            error: turn.error,
            started_at: turn.started_at,
            completed_at: turn.completed_at,
        }
    }
}

/// Page of proactive turns, newest first.
#[derive(Debug, Serialize, ToSchema)]
struct ProactiveTurnList {
    /// Proactive turns of this page.
    turns: Vec<TurnView>,
    /// Total number of matches on all pages.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ProactiveQuery {
    /// Returns only turns of this agent, by id or `svc_name`. Default: all agents.
    #[param(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// Maximum number of turns to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of turns to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// List proactive turns
///
/// Returns turns that agents started on their own, about failed runs and schedule suggestions, newest first. The
/// proactive settings control them.
#[utoipa::path(
    get, path = "/api/scheduler/proactive", tag = "scheduler", params(ProactiveQuery),
    responses(
        (status = 200, body = ProactiveTurnList),
        (status = 404, body = ErrorBody, description = "The agent was not found"),
    ),
)]
async fn list_proactive_turns(
    State(proactive): State<Proactive>,
    Query(query): Query<ProactiveQuery>,
) -> ApiResult<Json<ProactiveTurnList>> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, query.offset, PageLimits::default(), &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let (turns, total) = proactive.list(query.agent_id.as_deref(), page).await?;
    Ok(Json(ProactiveTurnList { turns: turns.into_iter().map(TurnView::from).collect(), total }))
}
