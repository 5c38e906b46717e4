//! Model and validation of agents.

mod change;

use agentd_base::{FieldProblem, Problems, Timestamp};
use agentd_core::settings::{is_provider, provider_names};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::workspaces::is_workspace_name;

pub(super) use change::MAX_VERSIONS;
pub use change::{AgentVersion, UpdateAgent, VersionSource};

agentd_base::typed_id!(
    /// The id of an agent.
    AgentId,
    "agent"
);
agentd_store::stored_ids!(AgentId);

pub(super) const MAX_AGENTS: usize = 10_000;
const MAX_ARCHETYPES: usize = 3;
const MAX_ARCHETYPE_CHARACTERS: usize = 64;
const MAX_USER_NAME_CHARACTERS: usize = 200;
const MAX_CUSTOM_ARCHETYPE_CHARACTERS: usize = 4_000;
/// Maximum length that all vendors accept.
const MAX_TOOL_NAME: usize = 64;
/// Maximum size of profile and answers, each as JSON. Agents are cached in memory, so they must stay small.
const MAX_JSON_BYTES: usize = 32 * 1024;

/// An agent that is not deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub id: AgentId,
    /// Unique among live agents; also the name of its folder.
    pub svc_name: String,
    /// Name of the owner.
    pub user_name: String,
    /// One to three archetypes.
    pub archetypes: Vec<String>,
    pub custom_archetype: Option<String>,
    pub evolution_choice: EvolutionChoice,
    pub profile: AgentProfile,
    /// Answers of the setup wizard: strings, or objects with `question` and `answer`.
    pub answers: Vec<Value>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Agent {
    /// Converts the agent to the request that would create it.
    pub(super) fn into_request(self) -> CreateAgent {
        CreateAgent {
            svc_name: self.svc_name,
            user_name: self.user_name,
            archetypes: self.archetypes,
            custom_archetype: self.custom_archetype,
            evolution_choice: self.evolution_choice,
            profile: self.profile,
            answers: self.answers,
        }
    }
}

/// Request to create an agent.
#[derive(Debug, Clone, Default)]
pub struct CreateAgent {
    pub svc_name: String,
    pub user_name: String,
    pub archetypes: Vec<String>,
    pub custom_archetype: Option<String>,
    pub evolution_choice: EvolutionChoice,
    pub profile: AgentProfile,
    pub answers: Vec<Value>,
}

/// Handling of changes that an agent proposes to its own instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvolutionChoice {
    /// The agent proposes no changes.
    Off,
    /// Changes require approval.
    #[default]
    Check,
    /// Changes take effect immediately.
    Auto,
}

impl EvolutionChoice {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Check => "check",
            Self::Auto => "auto",
        }
    }

    pub(super) fn from_stored(text: &str) -> Self {
        match text {
            "off" => Self::Off,
            "auto" => Self::Auto,
            _ => Self::Check,
        }
    }
}

/// Overrides of the agent settings for one agent. Unknown fields are preserved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentProfile {
    /// Provider id, for example `anthropic`; overrides `default_provider` of the agent settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64)]
    pub provider: Option<String>,
    /// Model name, up to 200 characters; overrides `default_model` of the agent settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub model: Option<String>,
    /// Instructions, up to 20,000 characters; part of the system prompt. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 20_000)]
    pub instructions: Option<String>,
    /// Names of the tools that the agent may use, up to 200. Tools do not have to exist yet. Default: all enabled
    /// tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 200)]
    pub tools: Option<Vec<String>>,
    /// Daily limit of input plus output tokens, in addition to `daily_token_limit` of the agent settings; `0` permits
    /// none. Default: no additional limit.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "number_or_none")]
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64)]
    pub daily_token_limit: Option<u64>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Profiles stored by earlier versions may contain any value under this name. Requests are validated against the
/// schema.
fn number_or_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Value::deserialize(deserializer).map(|value| value.as_u64())
}

impl AgentProfile {
    /// Checked for new values only, not for stored agents.
    fn unknown_provider(&self) -> Option<FieldProblem> {
        let _unknown = self.provider.as_deref().filter(|provider| !is_provider(provider))?;
        let message = format!("must be one of {}", provider_names());
        Some(FieldProblem { field: "profile.provider".to_owned(), message })
    }

    /// Returns problems of names that no tool can have. Checked for new values only.
    fn impossible_tools(&self) -> Vec<FieldProblem> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let is_name = |tool: &str| (1..=MAX_TOOL_NAME).contains(&tool.len()) && tool.bytes().all(is_plain);
        let tools = self.tools.iter().flatten().enumerate().filter(|(_, tool)| !is_name(tool));
        tools
            .map(|(index, _)| FieldProblem {
                field: format!("profile.tools[{index}]"),
                message: format!("must be a complete tool name: 1 to {MAX_TOOL_NAME} letters, digits, `_` or `-`"),
            })
            .collect()
    }
}

impl CreateAgent {
    /// Variant of [`Self::validated`] for a new agent.
    ///
    /// # Errors
    /// All invalid fields.
    pub(super) fn validated_as_new(self) -> Result<Self, Vec<FieldProblem>> {
        let mut problems = Vec::new();
        // Agents are found by name or id, so a name in the form of an id could refer to another agent.
        if AgentId::is_well_formed(&self.svc_name) {
            let message = "must not have the form of an agent's id".to_owned();
            problems.push(FieldProblem { field: "svc_name".to_owned(), message });
        }
        problems.extend(self.profile.unknown_provider());
        problems.extend(self.profile.impossible_tools());
        if problems.is_empty() {
            return self.validated();
        }
        problems.extend(self.validated().err().unwrap_or_default());
        Err(problems)
    }

    /// Trims texts and validates all fields.
    ///
    /// # Errors
    /// All invalid fields.
    pub(super) fn validated(mut self) -> Result<Self, Vec<FieldProblem>> {
        self.user_name = self.user_name.trim().to_owned();
        for archetype in &mut self.archetypes {
            *archetype = archetype.trim().to_owned();
        }
        let mut seen = Vec::new();
        self.archetypes.retain(|archetype| {
            let is_new = !seen.contains(archetype);
            seen.push(archetype.clone());
            is_new
        });
        self.custom_archetype =
            self.custom_archetype.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let mut problems = Problems::new();
        problems.require(
            is_workspace_name(&self.svc_name),
            "svc_name",
            "must be 1 to 63 of a-z, 0-9, `_` and `-`, and begin with a letter or digit",
        );
        problems.require(
            (1..=MAX_USER_NAME_CHARACTERS).contains(&self.user_name.chars().count()),
            "user_name",
            format!("must have 1 to {MAX_USER_NAME_CHARACTERS} characters"),
        );
        problems.require(
            (1..=MAX_ARCHETYPES).contains(&self.archetypes.len()),
            "archetype",
            format!("must be one archetype or up to {MAX_ARCHETYPES}"),
        );
        for archetype in &self.archetypes {
            if !(1..=MAX_ARCHETYPE_CHARACTERS).contains(&archetype.chars().count())
                || archetype.chars().any(char::is_control)
            {
                problems.add("archetype", format!("each must be 1 to {MAX_ARCHETYPE_CHARACTERS} printable characters"));
                break;
            }
        }
        if let Some(custom) = &self.custom_archetype {
            problems.require(
                custom.chars().count() <= MAX_CUSTOM_ARCHETYPE_CHARACTERS,
                "custom_archetype",
                format!("must have at most {MAX_CUSTOM_ARCHETYPE_CHARACTERS} characters"),
            );
        }
        let bytes = |value: serde_json::Result<String>| value.map_or(usize::MAX, |text| text.len());
        problems.require(
            bytes(serde_json::to_string(&self.profile)) <= MAX_JSON_BYTES,
            "profile",
            format!("must be at most {MAX_JSON_BYTES} bytes of JSON"),
        );
        problems.require(
            bytes(serde_json::to_string(&self.answers)) <= MAX_JSON_BYTES,
            "answers",
            format!("must be at most {MAX_JSON_BYTES} bytes of JSON"),
        );
        problems.into_result().map(|()| self)
    }

    pub(super) fn into_agent(self, id: AgentId, now: Timestamp) -> Agent {
        Agent {
            id,
            svc_name: self.svc_name,
            user_name: self.user_name,
            archetypes: self.archetypes,
            custom_archetype: self.custom_archetype,
            evolution_choice: self.evolution_choice,
            profile: self.profile,
            answers: self.answers,
            created_at: now,
            updated_at: now,
        }
    }
}

/// Payload of the purge of a deleted agent.
#[derive(Debug, Deserialize)]
pub(super) struct Purge {
    pub(super) agent_id: AgentId,
    pub(super) svc_name: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn valid() -> CreateAgent {
        CreateAgent {
            svc_name: "scout".to_owned(),
            user_name: "Ada".to_owned(),
            archetypes: vec!["researcher".to_owned()],
            ..CreateAgent::default()
        }
    }

    #[test]
    fn all_invalid_fields_are_reported() {
        let bad = CreateAgent { svc_name: "../x".to_owned(), ..CreateAgent::default() };
        let fields: Vec<String> = bad.validated().unwrap_err().into_iter().map(|problem| problem.field).collect();
        assert_eq!(fields, ["svc_name", "user_name", "archetype"]);
    }

    #[test]
    fn duplicate_archetypes_are_removed() {
        let twice = CreateAgent { archetypes: vec!["coach".to_owned(), " coach ".to_owned()], ..valid() };
        assert_eq!(twice.validated().unwrap().archetypes, ["coach"]);
        let four = CreateAgent { archetypes: ["a", "b", "c", "d"].map(str::to_owned).to_vec(), ..valid() };
        assert!(four.validated().is_err());
    }

    #[test]
    fn profile_preserves_unknown_fields() {
        let text = r#"{"model":"m","colour":{"a":[1]}}"#;
        let profile: AgentProfile = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&profile).unwrap(), text);
    }

    proptest! {
        #[test]
        fn valid_name_is_a_single_path_component(name in "\\PC{0,80}|[a-z0-9_-]{1,70}") {
            if is_workspace_name(&name) {
                let path = std::path::Path::new(&name);
                prop_assert_eq!(path.components().count(), 1);
                prop_assert!(matches!(path.components().next(), Some(std::path::Component::Normal(_))));
                prop_assert!(!name.starts_with('.'));
            }
        }

        #[test]
        fn names_follow_the_documented_grammar(name in "[a-z0-9][a-z0-9_-]{0,62}") {
            prop_assert!(is_workspace_name(&name));
            let (hyphened, long) = (format!("-{name}"), format!("{name:x<64}"));
            prop_assert!(!is_workspace_name(&hyphened));
            prop_assert!(!is_workspace_name(&long));
        }
    }
}
