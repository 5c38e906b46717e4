//! `/api/agents`.

mod change;
mod versions;

use std::sync::Arc;

use agentd_base::{FieldProblem, Timestamp};
use agentd_core::runtime::record_once;
use agentd_web::{ApiResult, ApiRouter, ErrorBody, IdempotencyKey, Json, Path, Routes, Validate, Validated, routes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::model::{Agent, AgentId, AgentProfile, CreateAgent, EvolutionChoice};
use super::service::Agents;

/// One archetype or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Archetype {
    One(String),
    Several(Vec<String>),
}

impl PartialSchema for Archetype {
    fn schema() -> RefOr<Schema> {
        let name = || ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(64));
        let several = ArrayBuilder::new().items(name()).min_items(Some(1)).max_items(Some(3));
        OneOfBuilder::new().item(name()).item(several).description(Some("One value or up to 3")).into()
    }
}

impl ToSchema for Archetype {}

/// What an agent is made from.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub struct AgentFields {
    /// Unique machine name: `[a-z0-9][a-z0-9_-]{0,62}`.
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9][a-z0-9_-]{0,62}$", example = "scout")]
    pub svc_name: String,
    /// What the owner is called.
    #[schema(min_length = 1, max_length = 200, example = "Ada")]
    pub user_name: String,
    /// One value or up to 3. With a text of their own: analyst, assistant, coach, companion,
    /// developer, operator, planner, researcher, teacher, writer; `custom` stands for
    /// `custom_archetype`; any other value is taken as the role's name.
    pub archetype: Archetype,
    #[serde(default)]
    pub profile: Option<AgentProfile>,
    /// Default `check`.
    #[serde(default)]
    pub evolution_choice: Option<EvolutionChoice>,
    /// A description in one's own words; part of the system prompt.
    #[serde(default)]
    #[schema(max_length = 4_000)]
    pub custom_archetype: Option<String>,
    /// What the setup wizard was answered: texts, or objects with `question` and `answer`.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub answers: Option<Vec<Value>>,
}

impl Archetype {
    fn into_names(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Several(several) => several,
        }
    }
}

impl<S: Sync> Validate<S> for AgentFields {
    async fn validate(self, _: &S) -> Vec<FieldProblem> {
        CreateAgent::from(self).checked_as_new().err().unwrap_or_default()
    }
}

impl From<AgentFields> for CreateAgent {
    fn from(fields: AgentFields) -> Self {
        Self {
            svc_name: fields.svc_name,
            user_name: fields.user_name,
            archetypes: fields.archetype.into_names(),
            custom_archetype: fields.custom_archetype,
            evolution_choice: fields.evolution_choice.unwrap_or_default(),
            profile: fields.profile.unwrap_or_default(),
            answers: fields.answers.unwrap_or_default(),
        }
    }
}

/// An agent.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AgentView {
    pub id: AgentId,
    /// The same as `svc_name`.
    pub name: String,
    pub svc_name: String,
    pub user_name: String,
    pub archetype: Vec<String>,
    pub profile: AgentProfile,
    pub evolution_choice: EvolutionChoice,
    pub custom_archetype: Option<String>,
    pub answers: Vec<Value>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl From<&Agent> for AgentView {
    fn from(agent: &Agent) -> Self {
        Self {
            id: agent.id.clone(),
            name: agent.svc_name.clone(),
            svc_name: agent.svc_name.clone(),
            user_name: agent.user_name.clone(),
            archetype: agent.archetypes.clone(),
            profile: agent.profile.clone(),
            evolution_choice: agent.evolution_choice,
            custom_archetype: agent.custom_archetype.clone(),
            answers: agent.answers.clone(),
            created_at: agent.created_at,
            updated_at: agent.updated_at,
        }
    }
}

/// An agent in the list.
#[derive(Debug, Serialize, ToSchema)]
struct AgentEntry {
    /// The same as `svc_name`.
    name: String,
    archetype: Vec<String>,
    user_name: String,
    svc_name: String,
    created_at: Timestamp,
}

/// Every agent, oldest first.
#[derive(Debug, Serialize, ToSchema)]
struct AgentListView {
    agents: Vec<AgentEntry>,
}

#[derive(Debug, Serialize, ToSchema)]
struct AgentDeleted {
    /// Always true.
    deleted: bool,
}

#[derive(Debug, Serialize, ToSchema)]
struct AgentExists {
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

/// Every agent, oldest first
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

/// Make an agent and its workspace
#[utoipa::path(post, path = "/api/agents", operation_id = "create_agent", tag = "agents", request_body = AgentFields,
    params(IdempotencyKey),
    responses((status = 201, body = AgentView), (status = 409, body = ErrorBody, description = "The svc_name is taken")))]
async fn create_agent(
    State(agents): State<Agents>,
    once: IdempotencyKey,
    Validated(Json(fields)): Validated<Json<AgentFields>>,
) -> ApiResult<(StatusCode, Json<AgentView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, |agent: &Agent| AgentView::from(agent));
    let agent = agents.create(fields.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(AgentView::from(&agent))))
}

/// One agent, by svc_name or id
#[utoipa::path(get, path = "/api/agents/{name}", operation_id = "get_agent", tag = "agents",
    params(("name" = String, Path, description = "svc_name or id")),
    responses((status = 200, body = AgentView)))]
async fn get_agent(State(agents): State<Agents>, Path(name): Path<String>) -> ApiResult<Json<AgentView>> {
    Ok(Json(AgentView::from(&*agents.get(&name).await?)))
}

/// Delete an agent with its workspace, conversations and memory
#[utoipa::path(delete, path = "/api/agents/{name}", operation_id = "delete_agent", tag = "agents",
    params(("name" = String, Path, description = "svc_name or id")),
    responses((status = 200, body = AgentDeleted)))]
async fn delete_agent(State(agents): State<Agents>, Path(name): Path<String>) -> ApiResult<Json<AgentDeleted>> {
    agents.delete(&name).await?;
    Ok(Json(AgentDeleted { deleted: true }))
}

/// Whether a svc_name is taken
#[utoipa::path(get, path = "/api/agents/{name}/exists", operation_id = "get_agent_exists", tag = "agents",
    params(("name" = String, Path, description = "svc_name")),
    responses((status = 200, body = AgentExists)))]
async fn get_agent_exists(State(agents): State<Agents>, Path(name): Path<String>) -> ApiResult<Json<AgentExists>> {
    Ok(Json(AgentExists { exists: agents.exists(&name).await? }))
}
