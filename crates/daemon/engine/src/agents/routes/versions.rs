//! Routes under `/api/agents/{name}/versions`.

use agentd_base::{Page, PageLimits};
use agentd_core::runtime::record_once;
use agentd_web::{ApiResult, ErrorBody, IdempotencyKey, Json, Path, Query};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::bodies::AgentView;
use crate::agents::model::{Agent, AgentVersion};
use crate::agents::service::Agents;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionsQuery {
    /// Maximum number of versions to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<u32>,
    /// Number of versions to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<u64>,
}

/// Page of versions of an agent's instructions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AgentVersionList {
    /// Versions of this page, newest first.
    versions: Vec<AgentVersion>,
    /// Total number of retained versions, at most 200.
    total: u64,
}

/// List versions of agent instructions
///
/// Returns the versions, newest first. Every change of `profile.instructions` creates a version; the newest 200 are
/// retained.
#[utoipa::path(get, path = "/api/agents/{name}/versions", operation_id = "list_agent_versions", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` or id of the agent"), VersionsQuery),
    responses((status = 200, body = AgentVersionList)))]
pub(super) async fn list_agent_versions(
    State(agents): State<Agents>,
    Path(name): Path<String>,
    Query(query): Query<VersionsQuery>,
) -> ApiResult<Json<AgentVersionList>> {
    let page = Page { limit: query.limit.unwrap_or(PageLimits::default().default), offset: query.offset.unwrap_or(0) };
    let (versions, total) = agents.list_versions(&name, page).await?;
    Ok(Json(AgentVersionList { versions, total }))
}

/// Restore a version of agent instructions
///
/// Creates a new version with the earlier text, unless it equals the current instructions.
#[utoipa::path(post, path = "/api/agents/{name}/versions/{n}/restore", operation_id = "restore_agent_version",
    tag = "agents", params(("name" = String, Path, description = "`svc_name` or id of the agent"),
        ("n" = u32, Path, description = "Number of the version, from 1"), IdempotencyKey),
    responses((status = 200, body = AgentView),
        (status = 404, body = ErrorBody, description = "Agent or version not found")))]
pub(super) async fn restore_agent_version(
    State(agents): State<Agents>,
    Path((name, version)): Path<(String, u32)>,
    once: IdempotencyKey,
) -> ApiResult<Json<AgentView>> {
    let recorder = record_once(&once, StatusCode::OK, |agent: &Agent| AgentView::from(agent));
    Ok(Json(AgentView::from(&agents.restore_version(&name, version, recorder).await?)))
}
