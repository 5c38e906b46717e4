//! What the model is asked when something is left for it to write.
//!
//! One open text is asked for as plain text: any text is a JSON string, and small models lose the
//! thread in escapes and braces. Everything else is written under a grammar.

use serde_json::Value;

use crate::form::{Parameter, Shape, object_grammar};
use crate::plan::Plan;
use crate::role::Role;

const MAX_TEXT_TOKENS: u32 = 200;
/// Room for the longest object that the grammar allows in practice.
const MAX_OBJECT_TOKENS: u32 = 320;

/// The one text that is open, where it is the only thing that is.
pub(crate) fn only_text(plan: &Plan) -> Option<(&Parameter, Role)> {
    match plan.open.as_slice() {
        [(parameter, role)] if matches!(parameter.shape, Shape::Text { .. }) => Some((parameter, *role)),
        _ => None,
    }
}

/// What a model is asked, at temperature 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    pub system: String,
    /// Questions and answers before the one that counts.
    pub examples: Vec<(String, String)>,
    pub question: String,
    pub max_output_tokens: u32,
    /// Texts that end the reply.
    pub stop: Vec<String>,
    /// A JSON Schema that the reply must satisfy.
    pub grammar_schema: Option<Value>,
}

impl Plan {
    /// The prompt for what is open; `None` when nothing is.
    #[must_use]
    pub fn prompt(&self) -> Option<Prompt> {
        if self.is_complete() {
            return None;
        }
        Some(match only_text(self) {
            Some((parameter, role)) => text(self, parameter, role),
            None => object(self),
        })
    }
}

/// Small models follow a few examples more than any words.
fn text(plan: &Plan, parameter: &Parameter, role: Role) -> Prompt {
    let prompt = |system: String, examples: Vec<(String, String)>, question: String| Prompt {
        system,
        examples,
        question,
        max_output_tokens: MAX_TEXT_TOKENS,
        stop: vec!["\nTask:".to_owned()],
        grammar_schema: None,
    };
    let (system, label, examples): (&str, &str, &[(&str, &str)]) = match role {
        Role::Code => (
            "You write short programs that print their result.",
            "Code",
            &[
                ("add 2 and 3", "print(2 + 3)"),
                ("print Good morning", "print(\"Good morning\")"),
                ("the sum of the numbers from 1 to 20", "print(sum(range(1, 21)))"),
                ("reverse the word cat", "print(\"cat\"[::-1])"),
                ("list the numbers from 3 to 6", "for i in range(3, 7): print(i)"),
            ],
        ),
        Role::Command => (
            "You write one shell command.",
            "Command",
            &[
                ("Show who I am in the shell", "whoami"),
                ("Run a command that shows the free memory", "free -h"),
                ("Run the linter", "make lint"),
                ("Show the last lines of app.log", "tail app.log"),
            ],
        ),
        _ => {
            let asked = if parameter.description.is_empty() { &parameter.name } else { &parameter.description };
            let system = format!("You write short texts ({asked}). Answer with the text alone.");
            return prompt(system, Vec::new(), plan.request.clone());
        }
    };
    let ask = |task: &str| format!("Task: {task}\n{label}:");
    let examples = examples.iter().map(|(task, answer)| (ask(task), (*answer).to_owned())).collect();
    prompt(system.to_owned(), examples, ask(&plan.request))
}

fn object(plan: &Plan) -> Prompt {
    let wanted: Vec<String> = plan
        .open
        .iter()
        .map(|(parameter, _)| match parameter.description.as_str() {
            "" => parameter.name.clone(),
            description => format!("{} ({description})", parameter.name),
        })
        .collect();
    let system = format!(
        "You write the input of the tool {}: {} Answer with JSON alone.",
        plan.tool,
        plan.description.trim_end()
    );
    let fields = plan.open.iter().map(|(parameter, _)| (parameter.name.as_str(), &parameter.shape));
    Prompt {
        system,
        examples: Vec::new(),
        question: format!("Task: {}\nWrite: {}", plan.request, wanted.join(", ")),
        max_output_tokens: MAX_OBJECT_TOKENS,
        stop: Vec::new(),
        grammar_schema: Some(object_grammar(fields)),
    }
}
