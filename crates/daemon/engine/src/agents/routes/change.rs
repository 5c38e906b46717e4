//! `PATCH /api/agents/{name}`.

use agentd_base::{FieldProblem, Patch};
use agentd_web::{ApiResult, ErrorBody, Json, Path, Validate, Validated};
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::bodies::{AgentView, Archetype};
use crate::agents::model::AgentProfile;
use crate::agents::model::{EvolutionChoice, UpdateAgent};
use crate::agents::service::Agents;

/// Any of the fields; those left out stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct AgentChange {
    #[serde(default)]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 200)]
    user_name: Option<String>,
    /// One value or up to 3, instead of those there are.
    #[serde(default)]
    #[schema(value_type = Archetype, required = false)]
    archetype: Option<Archetype>,
    /// Each member takes the place of the one there, `null` takes it away, and members that are left out
    /// stay. Other `instructions` become a new version.
    #[serde(default)]
    #[schema(value_type = AgentProfile, required = false)]
    profile: Map<String, Value>,
    /// `null` clears it.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 4_000)]
    custom_archetype: Patch<String>,
    #[serde(default)]
    #[schema(value_type = EvolutionChoice, required = false)]
    evolution_choice: Option<EvolutionChoice>,
    /// The instructions that the change was made from. If the agent has others by now, nothing changes and the answer
    /// is 409 `instructions_changed`.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 20_000)]
    expected_instructions: Option<String>,
}

impl<S: Sync> Validate<S> for AgentChange {
    async fn validate(self, _: &S) -> Vec<FieldProblem> {
        UpdateAgent::from(self).problems()
    }
}

impl From<AgentChange> for UpdateAgent {
    fn from(change: AgentChange) -> Self {
        Self {
            user_name: change.user_name,
            archetypes: change.archetype.map(Archetype::into_names),
            custom_archetype: change.custom_archetype,
            evolution_choice: change.evolution_choice,
            profile: change.profile,
            expected_instructions: change.expected_instructions,
        }
    }
}

/// Change an agent
///
/// Takes effect with the next reply. Two changes of different fields at once both hold.
#[utoipa::path(patch, path = "/api/agents/{name}", operation_id = "update_agent", tag = "agents",
    params(("name" = String, Path, description = "svc_name or id")), request_body = AgentChange,
    responses((status = 200, body = AgentView),
        (status = 409, body = ErrorBody, description = "The instructions are others than `expected_instructions`")))]
pub(super) async fn update_agent(
    State(agents): State<Agents>,
    Path(name): Path<String>,
    Validated(Json(change)): Validated<Json<AgentChange>>,
) -> ApiResult<Json<AgentView>> {
    Ok(Json(AgentView::from(&agents.update(&name, change.into()).await?)))
}
