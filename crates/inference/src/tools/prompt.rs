//! What the model is asked when something is left for it to write.
//!
//! One open text is asked for as plain text: any text is a JSON string, and small models lose the
//! thread in escapes and braces. Everything else is written under a grammar.

use std::path::Path;

use super::form::{Parameter, Shape, object_grammar};
use super::plan::Plan;
use super::role::Role;
use crate::{ChatMessage, GenerateRequest};

const MAX_TEXT_TOKENS: u32 = 200;
/// Room for the longest object that the grammar allows in practice.
const MAX_OBJECT_TOKENS: u32 = 320;

/// The one text that is open, where it is the only thing that is.
pub(super) fn only_text(plan: &Plan) -> Option<(&Parameter, Role)> {
    match plan.open.as_slice() {
        [(parameter, role)] if matches!(parameter.shape, Shape::Text { .. }) => Some((parameter, *role)),
        _ => None,
    }
}

/// The request for what is open in `plan`.
pub(super) fn request(plan: &Plan, model_path: &Path) -> GenerateRequest {
    let (system, messages) = match only_text(plan) {
        Some((parameter, role)) => text(plan, parameter, role),
        None => object(plan),
    };
    let mut request = GenerateRequest::new(model_path, system, messages);
    request.temperature = 0.0;
    if only_text(plan).is_some() {
        request.max_output_tokens = Some(MAX_TEXT_TOKENS);
        request.stop = vec!["\nTask:".to_owned()];
    } else {
        request.max_output_tokens = Some(MAX_OBJECT_TOKENS);
        let fields = plan.open.iter().map(|(parameter, _)| (parameter.name.as_str(), &parameter.shape));
        request.grammar_schema = Some(object_grammar(fields));
    }
    request
}

/// Small models follow a few examples more than any words.
fn text(plan: &Plan, parameter: &Parameter, role: Role) -> (String, Vec<ChatMessage>) {
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
            return (system, vec![ChatMessage::user(&plan.request)]);
        }
    };
    let ask = |task: &str| ChatMessage::user(format!("Task: {task}\n{label}:"));
    let mut messages = Vec::with_capacity(2 * examples.len() + 1);
    for (task, answer) in examples {
        messages.push(ask(task));
        messages.push(ChatMessage::assistant(*answer));
    }
    messages.push(ask(&plan.request));
    (system.to_owned(), messages)
}

fn object(plan: &Plan) -> (String, Vec<ChatMessage>) {
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
    (system, vec![ChatMessage::user(format!("Task: {}\nWrite: {}", plan.request, wanted.join(", ")))])
}
