//! Route `PATCH /api/agents/{name}`.

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

/// Changes to an agent; absent fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct AgentChange {
    /// Name of the owner for the system prompt, 1 to 200 characters.
    #[serde(default)]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 200)]
    user_name: Option<String>,
    /// One value or up to 3; replaces the current values.
    #[serde(default)]
    #[schema(value_type = Archetype, required = false)]
    archetype: Option<Archetype>,
    /// Members to replace; null removes a member, and absent members keep their values. Changed `instructions` create a
    /// new version.
    #[serde(default)]
    #[schema(value_type = AgentProfile, required = false)]
    profile: Map<String, Value>,
    /// Custom description of the role, up to 4,000 characters. Null clears it.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 4_000)]
    custom_archetype: Patch<String>,
    /// Handling of changes that the agent proposes to itself.
    #[serde(default)]
    #[schema(value_type = EvolutionChoice, required = false)]
    evolution_choice: Option<EvolutionChoice>,
    /// Instructions on which the change is based. If the current ones differ, nothing changes and the response is 409
    /// `instructions_changed`.
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

/// Update an agent
///
/// Takes effect with the next reply. Concurrent changes of different fields are all applied.
#[utoipa::path(patch, path = "/api/agents/{name}", operation_id = "update_agent", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` or id of the agent")), request_body = AgentChange,
    responses((status = 200, body = AgentView),
        (status = 409, body = ErrorBody, description = "The instructions differ from `expected_instructions`")))]
pub(super) async fn update_agent(
    State(agents): State<Agents>,
    Path(name): Path<String>,
    Validated(Json(change)): Validated<Json<AgentChange>>,
) -> ApiResult<Json<AgentView>> {
    Ok(Json(AgentView::from(&agents.update(&name, change.into()).await?)))
}
