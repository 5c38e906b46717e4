//! Changes to an agent, and the versions of its instructions.

use agentd_base::{FieldProblem, Patch, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Agent, AgentId, AgentProfile, CreateAgent, EvolutionChoice};

/// Maximum number of retained versions of an agent's instructions.
pub(crate) const MAX_VERSIONS: u32 = 200;

/// Changes to an agent; absent fields keep their values.
#[derive(Debug, Clone, Default)]
pub struct UpdateAgent {
    pub user_name: Option<String>,
    pub archetypes: Option<Vec<String>>,
    pub custom_archetype: Patch<String>,
    pub evolution_choice: Option<EvolutionChoice>,
    /// Members of the profile to replace; null removes a member.
    pub profile: Map<String, Value>,
    /// The change is rejected unless the agent has exactly these instructions.
    pub expected_instructions: Option<String>,
}

impl UpdateAgent {
    /// Returns the problems that are independent of the agent.
    pub(crate) fn problems(self) -> Vec<FieldProblem> {
        let any = CreateAgent {
            svc_name: "any".to_owned(),
            user_name: "any".to_owned(),
            archetypes: vec!["any".to_owned()],
            ..CreateAgent::default()
        };
        let any = any.into_agent(AgentId::from("agent"), Timestamp::default());
        any.changed(self, Timestamp::default()).err().unwrap_or_default()
    }
}

/// Origin of a version of an agent's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionSource {
    /// Initial version of a new agent.
    Created,
    /// Changed by the owner.
    Owner,
    /// Changed by the agent itself, as permitted by `evolution_choice`.
    Evolution,
    /// Restored from an earlier version.
    Restore,
}

impl VersionSource {
    const ALL: [Self; 4] = [Self::Created, Self::Owner, Self::Evolution, Self::Restore];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Owner => "owner",
            Self::Evolution => "evolution",
            Self::Restore => "restore",
        }
    }

    /// A table constraint guarantees one of these values.
    pub(crate) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|source| source.as_str() == text).unwrap_or(Self::Owner)
    }
}

/// A version of an agent's instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AgentVersion {
    /// Sequence number, starting at 1; the highest is the current version.
    pub version: u32,
    /// Complete text of the instructions; empty if there were none.
    pub instructions: String,
    /// Origin of this version.
    pub source: VersionSource,
    /// Reason for the change; null if none was given.
    pub reason: Option<String>,
    pub created_at: Timestamp,
}

impl Agent {
    /// Returns the instructions; empty if there are none.
    #[must_use]
    pub fn instructions(&self) -> &str {
        self.profile.instructions.as_deref().unwrap_or_default()
    }

    /// Returns the agent after a change.
    ///
    /// # Errors
    /// All invalid fields.
    pub(crate) fn changed(&self, change: UpdateAgent, now: Timestamp) -> Result<Self, Vec<FieldProblem>> {
        let mut custom_archetype = self.custom_archetype.clone();
        change.custom_archetype.apply(&mut custom_archetype);
        let names = |member: &str| change.profile.contains_key(member);
        let (names_provider, names_tools) = (names("provider"), names("tools"));
        let (profile, profile_problems) = match merged(&self.profile, change.profile) {
            Ok(profile) => {
                let mut profile_problems: Vec<FieldProblem> =
                    profile.unknown_provider().filter(|_| names_provider).into_iter().collect();
                if names_tools {
                    profile_problems.extend(profile.impossible_tools());
                }
                (profile, profile_problems)
            }
            Err(error) => {
                let problem = FieldProblem { field: "profile".to_owned(), message: error.to_string() };
                (self.profile.clone(), vec![problem])
            }
        };
        let request = CreateAgent {
            svc_name: self.svc_name.clone(),
            user_name: change.user_name.unwrap_or_else(|| self.user_name.clone()),
            archetypes: change.archetypes.unwrap_or_else(|| self.archetypes.clone()),
            custom_archetype,
            evolution_choice: change.evolution_choice.unwrap_or(self.evolution_choice),
            profile,
            answers: self.answers.clone(),
        };
        let validated = request.validated();
        if !profile_problems.is_empty() {
            let mut problems = validated.err().unwrap_or_default();
            problems.extend(profile_problems);
            return Err(problems);
        }
        let changed = validated?.into_agent(self.id.clone(), now);
        // Clocks of replicas may differ slightly; `updated_at` never decreases.
        Ok(Self { created_at: self.created_at, updated_at: now.max(self.updated_at), ..changed })
    }

    /// Returns the agent with other instructions; `None` if they do not fit.
    pub(crate) fn with_instructions(&self, instructions: &str, now: Timestamp) -> Option<Self> {
        let instructions = match instructions {
            "" => Value::Null,
            text => Value::from(text),
        };
        let profile = Map::from_iter([("instructions".to_owned(), instructions)]);
        self.changed(UpdateAgent { profile, ..UpdateAgent::default() }, now).ok()
    }
}

fn merged(profile: &AgentProfile, changes: Map<String, Value>) -> serde_json::Result<AgentProfile> {
    let mut members = match serde_json::to_value(profile)? {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    for (name, value) in changes {
        if value.is_null() {
            members.remove(&name);
        } else {
            members.insert(name, value);
        }
    }
    serde_json::from_value(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use agentd_base::Timestamp;
    use serde_json::json;

    use super::*;

    fn agent() -> Agent {
        let request = CreateAgent {
            svc_name: "scout".to_owned(),
            user_name: "Ada".to_owned(),
            archetypes: vec!["coach".to_owned()],
            custom_archetype: Some("You love maps.".to_owned()),
            profile: serde_json::from_value(json!({"model": "m", "instructions": "Be brief.", "colour": {"a": 1}}))
                .unwrap(),
            ..CreateAgent::default()
        };
        request.into_agent(AgentId::from("agent_1"), Timestamp::from_micros(5))
    }

    fn profile(value: Value) -> UpdateAgent {
        let Value::Object(profile) = value else { panic!("an object") };
        UpdateAgent { profile, ..UpdateAgent::default() }
    }

    #[test]
    fn absent_fields_keep_their_values() {
        let later = Timestamp::from_micros(9);
        let same = agent().changed(UpdateAgent::default(), later).unwrap();
        assert_eq!(same, Agent { updated_at: later, ..agent() });
        let changed = agent().changed(profile(json!({"model": null, "colour": 2, "new": [1]})), later).unwrap();
        assert_eq!(
            serde_json::to_value(changed.profile).unwrap(),
            json!({"instructions": "Be brief.", "colour": 2, "new": [1]})
        );
    }

    #[test]
    fn all_invalid_fields_are_reported() {
        let bad = UpdateAgent {
            user_name: Some(" ".to_owned()),
            archetypes: Some(Vec::new()),
            custom_archetype: Patch::Set("x".repeat(5_000)),
            ..profile(json!({"tools": "all", "model": 7}))
        };
        let problems = agent().changed(bad, Timestamp::from_micros(9)).unwrap_err();
        let fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["user_name", "archetype", "custom_archetype", "profile"]);
    }

    #[test]
    fn oversized_instructions_are_rejected() {
        let now = Timestamp::from_micros(9);
        assert_eq!(agent().with_instructions("Be kind.", now).unwrap().instructions(), "Be kind.");
        assert_eq!(agent().with_instructions("", now).unwrap().profile.instructions, None);
        assert!(agent().with_instructions(&"é".repeat(20_000), now).is_none());
    }
}
