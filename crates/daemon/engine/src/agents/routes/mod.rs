//! Routes under `/api/agents`.

mod bodies;
mod change;
mod versions;

use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_core::runtime::record_once;
use agentd_web::{ApiResult, ApiRouter, ErrorBody, IdempotencyKey, Json, Path, Routes, Validated, routes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use utoipa::ToSchema;

use super::model::Agent;
use super::service::Agents;
pub use bodies::{AgentFields, AgentView};

/// Summary of an agent.
#[derive(Debug, Serialize, ToSchema)]
struct AgentEntry {
    /// Equal to `svc_name`.
    name: String,
    /// One to three roles; predefined names, `custom`, or free text.
    archetype: Vec<String>,
    /// Name of the owner, used in the system prompt.
    user_name: String,
    /// Machine name, unique among agents.
    svc_name: String,
    created_at: Timestamp,
}

/// List of agents.
#[derive(Debug, Serialize, ToSchema)]
struct AgentListView {
    /// All agents, oldest first.
    agents: Vec<AgentEntry>,
}

/// Confirmation that an agent was deleted.
#[derive(Debug, Serialize, ToSchema)]
struct AgentDeleted {
    /// Always `true`.
    deleted: bool,
}

/// Result of a name check.
#[derive(Debug, Serialize, ToSchema)]
struct AgentExists {
    /// Whether an agent with this `svc_name` exists.
    exists: bool,
}

pub(super) fn routes() -> Routes<Agents> {
    Routes::new().protected(
        ApiRouter::new()
            .routes(routes!(list_agents, create_agent))
            .routes(routes!(get_agent, change::update_agent, delete_agent))
            .routes(routes!(get_agent_exists))
            .routes(routes!(versions::list_agent_versions))
            .routes(routes!(versions::restore_agent_version)),
    )
}

/// List agents
///
/// Returns all agents, oldest first.
#[utoipa::path(get, path = "/api/agents", operation_id = "list_agents", tag = "agents",
    responses((status = 200, body = AgentListView)))]
async fn list_agents(State(agents): State<Agents>) -> ApiResult<Response> {
    let body = agents.all().await?.rendered(render_list);
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

fn render_list(agents: &[Arc<Agent>]) -> Bytes {
    let entry = |agent: &Arc<Agent>| AgentEntry {
        name: agent.svc_name.clone(),
        archetype: agent.archetypes.clone(),
        user_name: agent.user_name.clone(),
        svc_name: agent.svc_name.clone(),
        created_at: agent.created_at,
    };
    serde_json::to_vec(&AgentListView { agents: agents.iter().map(entry).collect() }).unwrap_or_default().into()
}

/// Create an agent
///
/// Creates its workspace as well.
#[utoipa::path(post, path = "/api/agents", operation_id = "create_agent", tag = "agents", request_body = AgentFields,
    params(IdempotencyKey),
    responses((status = 201, body = AgentView),
        (status = 409, body = ErrorBody, description = "The svc_name is taken")))]
async fn create_agent(
    State(agents): State<Agents>,
    once: IdempotencyKey,
    Validated(Json(fields)): Validated<Json<AgentFields>>,
) -> ApiResult<(StatusCode, Json<AgentView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, |agent: &Agent| AgentView::from(agent));
    let agent = agents.create(fields.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(AgentView::from(&agent))))
}

/// Get an agent
#[utoipa::path(get, path = "/api/agents/{name}", operation_id = "get_agent", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` or id of the agent")),
    responses((status = 200, body = AgentView)))]
async fn get_agent(State(agents): State<Agents>, Path(name): Path<String>) -> ApiResult<Json<AgentView>> {
    Ok(Json(AgentView::from(&*agents.get(&name).await?)))
}

/// Delete an agent
///
/// Deletes its workspace, conversations and memory as well. The data is unreachable immediately and deleted in the
/// background.
#[utoipa::path(delete, path = "/api/agents/{name}", operation_id = "delete_agent", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` or id of the agent")),
    responses((status = 200, body = AgentDeleted)))]
async fn delete_agent(State(agents): State<Agents>, Path(name): Path<String>) -> ApiResult<Json<AgentDeleted>> {
    agents.delete(&name).await?;
    Ok(Json(AgentDeleted { deleted: true }))
}

/// Check whether a name is taken
#[utoipa::path(get, path = "/api/agents/{name}/exists", operation_id = "get_agent_exists", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` to check")),
    responses((status = 200, body = AgentExists)))]
async fn get_agent_exists(State(agents): State<Agents>, Path(name): Path<String>) -> ApiResult<Json<AgentExists>> {
    Ok(Json(AgentExists { exists: agents.exists(&name).await? }))
}
