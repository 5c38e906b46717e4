//! A change of an agent, and the versions of its instructions.

use agentd_base::{FieldProblem, Patch, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Agent, AgentId, AgentProfile, CreateAgent, EvolutionChoice};

/// So many versions of an agent's instructions are kept; the oldest go first.
pub(crate) const VERSIONS_KEPT: u32 = 200;

/// What is to be different about an agent; what is not named stays.
#[derive(Debug, Clone, Default)]
pub struct UpdateAgent {
    pub user_name: Option<String>,
    pub archetypes: Option<Vec<String>>,
    pub custom_archetype: Patch<String>,
    pub evolution_choice: Option<EvolutionChoice>,
    /// Members of the profile: each takes the place of the one there, `null` takes it away.
    pub profile: Map<String, Value>,
    /// The change is refused if the agent has other instructions than these.
    pub expected_instructions: Option<String>,
}

impl UpdateAgent {
    /// What is wrong with it whatever agent it is for.
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

/// Where a version of an agent's instructions came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionSource {
    /// It was there when the agent was made.
    Created,
    /// The owner changed the agent.
    Owner,
    /// The agent changed itself, as `evolution_choice` allows.
    Evolution,
    /// An earlier version was restored.
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

    /// What the database holds is one of these: a rule of the table says so.
    pub(crate) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|source| source.as_str() == text).unwrap_or(Self::Owner)
    }
}

/// One version of an agent's instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AgentVersion {
    /// Counts up from 1; the highest is the one in force.
    pub version: u32,
    /// The whole text; empty where there was none.
    pub instructions: String,
    pub source: VersionSource,
    /// Why it was made, where something is known of that.
    pub reason: Option<String>,
    pub created_at: Timestamp,
}

impl Agent {
    /// Empty where it has none.
    #[must_use]
    pub fn instructions(&self) -> &str {
        self.profile.instructions.as_deref().unwrap_or_default()
    }

    /// The agent as it is after a change.
    ///
    /// # Errors
    /// Every bad field.
    pub(crate) fn changed(&self, change: UpdateAgent, now: Timestamp) -> Result<Self, Vec<FieldProblem>> {
        let mut custom_archetype = self.custom_archetype.clone();
        change.custom_archetype.apply(&mut custom_archetype);
        let names = |member: &str| change.profile.contains_key(member);
        let (names_provider, names_tools) = (names("provider"), names("tools"));
        let (profile, wrong) = match merged(&self.profile, change.profile) {
            Ok(profile) => {
                let mut wrong: Vec<FieldProblem> =
                    profile.unknown_provider().filter(|_| names_provider).into_iter().collect();
                if names_tools {
                    wrong.extend(profile.impossible_tools());
                }
                (profile, wrong)
            }
            Err(error) => {
                let problem = FieldProblem { field: "profile".to_owned(), message: error.to_string() };
                (self.profile.clone(), vec![problem])
            }
        };
        let wanted = CreateAgent {
            svc_name: self.svc_name.clone(),
            user_name: change.user_name.unwrap_or_else(|| self.user_name.clone()),
            archetypes: change.archetypes.unwrap_or_else(|| self.archetypes.clone()),
            custom_archetype,
            evolution_choice: change.evolution_choice.unwrap_or(self.evolution_choice),
            profile,
            answers: self.answers.clone(),
        };
        let checked = wanted.checked();
        if !wrong.is_empty() {
            let mut problems = checked.err().unwrap_or_default();
            problems.extend(wrong);
            return Err(problems);
        }
        let changed = checked?.into_agent(self.id.clone(), now);
        // Clocks of replicas may differ a little; time never goes back.
        Ok(Self { created_at: self.created_at, updated_at: now.max(self.updated_at), ..changed })
    }

    /// The agent with other instructions; `None` where they would not fit.
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
        let wanted = CreateAgent {
            svc_name: "scout".to_owned(),
            user_name: "Ada".to_owned(),
            archetypes: vec!["coach".to_owned()],
            custom_archetype: Some("You love maps.".to_owned()),
            profile: serde_json::from_value(json!({"model": "m", "instructions": "Be brief.", "colour": {"a": 1}}))
                .unwrap(),
            ..CreateAgent::default()
        };
        wanted.into_agent(AgentId::from("agent_1"), Timestamp::from_micros(5))
    }

    fn profile(value: Value) -> UpdateAgent {
        let Value::Object(profile) = value else { panic!("an object") };
        UpdateAgent { profile, ..UpdateAgent::default() }
    }

    #[test]
    fn what_is_not_named_stays() {
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
    fn every_bad_field_is_named() {
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
    fn instructions_that_do_not_fit_are_not_taken() {
        let now = Timestamp::from_micros(9);
        assert_eq!(agent().with_instructions("Be kind.", now).unwrap().instructions(), "Be kind.");
        assert_eq!(agent().with_instructions("", now).unwrap().profile.instructions, None);
        assert!(agent().with_instructions(&"é".repeat(20_000), now).is_none());
    }
}
