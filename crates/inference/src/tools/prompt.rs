//! What the model is asked when something is left for it to write.

use std::path::Path;

use serde_json::{Map, Value};

use super::form::{Shape, object_grammar};
use super::plan::Plan;
use super::role::Role;
use crate::{ChatMessage, GenerateRequest};

/// Room for the longest text that the grammar allows, quotes and escapes included.
const MAX_OUTPUT_TOKENS: u32 = 320;

/// The request for what is open in `plan`: a JSON object of the open parameters alone.
pub(super) fn request(plan: &Plan, model_path: &Path) -> GenerateRequest {
    let fields = || plan.open.iter().map(|(parameter, _)| (parameter.name.as_str(), &parameter.shape));
    let mut messages = Vec::new();
    for (task, answer) in examples(plan) {
        messages.push(ChatMessage::user(task));
        messages.push(ChatMessage::assistant(answer));
    }
    messages.push(ChatMessage::user(task(plan, &plan.request)));
    let system = format!(
        "You write the input of the tool {}: {} Answer with JSON alone.",
        plan.tool,
        plan.description.trim_end()
    );
    let mut request = GenerateRequest::new(model_path, system, messages);
    request.temperature = 0.0;
    request.max_output_tokens = Some(MAX_OUTPUT_TOKENS);
    request.grammar_schema = Some(object_grammar(fields()));
    request
}

fn task(plan: &Plan, request: &str) -> String {
    let described: Vec<String> = plan
        .open
        .iter()
        .map(|(parameter, _)| {
            if parameter.description.is_empty() { parameter.name.clone() } else { format!("{} ({})", parameter.name, parameter.description) }
        })
        .collect();
    format!("Task: {request}\nWrite: {}", described.join(", "))
}

/// A few tasks of the same kind with their answers; small models follow these more than words.
fn examples(plan: &Plan) -> Vec<(String, String)> {
    let [(parameter, role)] = plan.open.as_slice() else { return Vec::new() };
    if !matches!(parameter.shape, Shape::Text { .. }) {
        return Vec::new();
    }
    let pairs: &[(&str, &str)] = match role {
        Role::Code => &[
            ("Use Python to add 2 and 3", "print(2 + 3)"),
            ("Write a Python program that prints the squares from 1 to 4", "for i in range(1, 5):\n    print(i * i)"),
            ("Run Python to print Good morning", "print(\"Good morning\")"),
        ],
        Role::Command => &[
            ("Show who I am in the shell", "whoami"),
            ("Run a command that shows the free memory", "free -h"),
            ("Run the linter", "make lint"),
        ],
        _ => &[
            ("Write two lines about rain to rain.txt", "Rain taps softly on the pane,\nand washes every street again."),
            ("Save a short invitation to my party in party.txt", "Dear friends, you are invited to my party on Saturday at six. I hope to see you there!"),
        ],
    };
    pairs
        .iter()
        .map(|(request, answer)| {
            let fields: Map<String, Value> = [(parameter.name.clone(), Value::from(*answer))].into_iter().collect();
            (task(plan, request), Value::Object(fields).to_string())
        })
        .collect()
}
