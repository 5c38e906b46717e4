//! System prompt of an agent. Kept short, because small models lose track of long prompts.

use serde_json::Value;

use super::model::Agent;

/// Maximum total length of setup wizard answers in the prompt; further answers are omitted.
const MAX_ANSWERS_CHARACTERS: usize = 4_000;

/// Archetypes with a predefined text. Any other name is used as is.
const ARCHETYPES: [(&str, &str); 10] = [
    ("analyst", "You weigh figures and evidence, show how you reach a conclusion, and say how sure you are."),
    ("assistant", "You are helpful, friendly and to the point."),
    ("coach", "You ask good questions, encourage, and help to take the next step."),
    ("companion", "You are warm and attentive, and you listen before you advise."),
    ("developer", "You write correct, simple code, and you explain it briefly."),
    ("operator", "You carry out tasks step by step, check each result, and report what was done."),
    ("planner", "You turn goals into clear steps with an order, dates and risks."),
    ("researcher", "You gather facts, compare sources, and tell what is known from what is guessed."),
    ("teacher", "You explain with simple words and examples, and you check what was understood."),
    ("writer", "You write clear, lively text and fit its tone to the reader."),
];

/// Builds the system prompt. `instructions` are those for all agents. `language` is the English name of the response
/// language, if it is not English. `today` is formatted for the owner. `owner` is the owner's name in the profile, if
/// set.
pub(super) fn system_prompt(
    agent: &Agent,
    owner: &str,
    instructions: &str,
    language: Option<&str>,
    today: &str,
) -> String {
    let owner = if owner.is_empty() { &agent.user_name } else { owner };
    let mut prompt = format!("You are {}, the AI agent of {owner}.", agent.svc_name);
    for archetype in &agent.archetypes {
        let name = archetype.to_lowercase();
        if let Some((_, text)) = ARCHETYPES.iter().find(|(known, _)| *known == name) {
            prompt.push(' ');
            prompt.push_str(text);
        } else if name != "custom" {
            prompt.push_str(&format!(" Your role: {archetype}."));
        }
    }
    if let Some(custom) = &agent.custom_archetype {
        prompt.push(' ');
        prompt.push_str(custom);
    }
    if let Some(language) = language {
        prompt.push_str(&format!(" Answer in {language} unless you are asked for another language."));
    }
    prompt.push_str(&format!(" Today is {today}."));
    for text in [instructions, agent.profile.instructions.as_deref().unwrap_or_default()] {
        let text = text.trim();
        if !text.is_empty() {
            prompt.push_str("\n\n");
            prompt.push_str(text);
        }
    }
    push_answers(&mut prompt, agent, owner);
    prompt
}

fn push_answers(prompt: &mut String, agent: &Agent, owner: &str) {
    let mut characters = 0;
    let mut is_first = true;
    for line in agent.answers.iter().filter_map(answer_line) {
        characters += line.chars().count();
        if characters > MAX_ANSWERS_CHARACTERS {
            return;
        }
        if is_first {
            prompt.push_str(&format!("\n\nWhat {owner} told you:"));
            is_first = false;
        }
        prompt.push_str("\n- ");
        prompt.push_str(&line);
    }
}

fn answer_line(answer: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let line = match answer {
        Value::Object(fields) => match (fields.get("question"), fields.get("answer")) {
            (Some(question), Some(given)) => match text(given) {
                given if given.is_empty() => String::new(),
                given => format!("{} {given}", text(question)),
            },
            (None, Some(given)) => text(given),
            _ => answer.to_string(),
        },
        other => text(other),
    };
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use agentd_base::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::agents::model::{AgentId, AgentProfile, CreateAgent};

    fn agent() -> Agent {
        let wanted = CreateAgent {
            svc_name: "scout".to_owned(),
            user_name: "Ada".to_owned(),
            archetypes: vec!["Researcher".to_owned(), "pirate".to_owned(), "custom".to_owned()],
            custom_archetype: Some("You love maps.".to_owned()),
            profile: AgentProfile { instructions: Some("Be brief.".to_owned()), ..AgentProfile::default() },
            answers: vec![
                json!({"question": "Hobby?", "answer": "chess"}),
                json!("likes tea"),
                json!({"answer": null}),
            ],
            ..CreateAgent::default()
        };
        wanted.into_agent(AgentId::from("agent_1"), Timestamp::default())
    }

    #[test]
    fn prompt_contains_all_owner_input() {
        assert_eq!(
            system_prompt(&agent(), "", "Never lie.", Some("German"), "Monday, 05.01.2026"),
            "You are scout, the AI agent of Ada. You gather facts, compare sources, and tell what is known from \
             what is guessed. Your role: pirate. You love maps. Answer in German unless you are asked for another \
             language. Today is Monday, 05.01.2026.\n\nNever lie.\n\nBe brief.\n\nWhat Ada told you:\n- Hobby? chess\n- likes tea"
        );
    }

    #[test]
    fn owner_name_comes_from_the_profile() {
        let prompt = system_prompt(&agent(), "Countess Lovelace", "", None, "x");
        assert!(prompt.starts_with("You are scout, the AI agent of Countess Lovelace."));
        assert!(prompt.contains("What Countess Lovelace told you:") && !prompt.contains("Ada"));
    }

    #[test]
    fn prompt_without_owner_input_is_minimal() {
        let plain = Agent {
            archetypes: vec!["assistant".to_owned()],
            custom_archetype: None,
            answers: Vec::new(),
            profile: AgentProfile::default(),
            ..agent()
        };
        let expected = "You are scout, the AI agent of Ada. You are helpful, friendly and to the point. \
                        Today is x.";
        assert_eq!(system_prompt(&plain, "", "", None, "x"), expected);
        assert_eq!(system_prompt(&plain, "", " ", None, "x"), expected);
    }
}
