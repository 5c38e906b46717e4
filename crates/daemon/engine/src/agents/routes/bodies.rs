//! Request and response bodies of agents.

use agentd_base::{FieldProblem, Timestamp};
use agentd_web::Validate;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::agents::model::{Agent, AgentId, AgentProfile, CreateAgent, EvolutionChoice};

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

/// Fields of a new agent.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub struct AgentFields {
    /// Machine name, unique among agents: 1 to 63 characters `[a-z0-9_-]`, starting with a letter or digit. Cannot be
    /// changed.
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9][a-z0-9_-]{0,62}$", example = "scout")]
    pub svc_name: String,
    /// Name of the owner for the system prompt, 1 to 200 characters.
    #[schema(min_length = 1, max_length = 200, example = "Ada")]
    pub user_name: String,
    /// One value or up to 3. Predefined: analyst, assistant, coach, companion, developer, operator, planner,
    /// researcher, teacher, writer; `custom` refers to `custom_archetype`; any other value is used as the name of a
    /// role.
    pub archetype: Archetype,
    /// Model, instructions, tools and limits of the agent, at most 32 KiB of JSON. Default: the agent settings.
    #[serde(default)]
    pub profile: Option<AgentProfile>,
    /// Handling of changes that the agent proposes to itself. Default: `check`.
    #[serde(default)]
    pub evolution_choice: Option<EvolutionChoice>,
    /// Custom description of the role, up to 4,000 characters; part of the system prompt. Default: none.
    #[serde(default)]
    #[schema(max_length = 4_000)]
    pub custom_archetype: Option<String>,
    /// Answers of the setup wizard: strings, or objects with `question` and `answer`. At most 100 entries and 32 KiB of
    /// JSON. Default: none.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub answers: Option<Vec<Value>>,
}

impl Archetype {
    pub(super) fn into_names(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Several(several) => several,
        }
    }
}

impl<S: Sync> Validate<S> for AgentFields {
    async fn validate(self, _: &S) -> Vec<FieldProblem> {
        CreateAgent::from(self).validated_as_new().err().unwrap_or_default()
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
    /// Equal to `svc_name`.
    pub name: String,
    /// Machine name, unique among agents.
    pub svc_name: String,
    /// Name of the owner, used in the system prompt.
    pub user_name: String,
    /// One to three roles; predefined names, `custom`, or free text.
    pub archetype: Vec<String>,
    /// Overrides of the agent settings.
    pub profile: AgentProfile,
    /// Handling of changes that the agent proposes to itself.
    pub evolution_choice: EvolutionChoice,
    /// Custom description of the role; null if there is none.
    pub custom_archetype: Option<String>,
    /// Answers of the setup wizard: strings, or objects with `question` and `answer`.
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
