//! The API document has a valid example of every operation.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::document::{Operation, operations, validator_for};
use crate::support::{examples, record};
use crate::tidy::root;

const FILE: &str = "src/compose/examples.json";

/// Lists of longer responses are shortened, in bytes.
const MAX_LENGTH: usize = 1600;
/// Operations whose request has the format of another system.
const WITHOUT_REQUEST: [&str; 2] = ["receive_channel_webhook", "receive_webhook"];
/// Operations whose response would not fit an example.
const WITHOUT_RESPONSE: [&str; 2] = ["get_openapi", "get_page"];

fn content<'value>(value: &'value Value, media_type: &str) -> &'value Value {
    &value["content"][media_type]
}

/// Returns what is wrong with the examples of an operation.
fn problems(operation: &Operation) -> Vec<String> {
    let mut problems = Vec::new();
    let name = &operation.id;
    let body = content(&operation.value["requestBody"], "application/json");
    if !body.is_null() && !WITHOUT_REQUEST.contains(&name.as_str()) {
        match &body["example"] {
            Value::Null if operation.value["requestBody"]["required"] == true => {
                problems.push(format!("{name} has no example of its request"));
            }
            Value::Null => {}
            example => problems.extend(invalid(&format!("{name} request"), &body["schema"], example)),
        }
    }
    let mut has_response = false;
    let mut has_content = false;
    for (status, response) in operation.value["responses"].as_object().expect("responses") {
        if !status.starts_with('2') {
            continue;
        }
        for (media_type, content) in response["content"].as_object().into_iter().flatten() {
            has_content |= media_type == "application/json" || media_type.starts_with("text/");
            let example = &content["example"];
            if example.is_null() {
                continue;
            }
            has_response = true;
            if media_type == "application/json" {
                problems.extend(invalid(&format!("{name} {status}"), &content["schema"], example));
            }
        }
    }
    if has_content && !has_response && !WITHOUT_RESPONSE.contains(&name.as_str()) {
        problems.push(format!("{name} has no example of its response"));
    }
    problems
}

fn invalid(name: &str, schema: &Value, example: &Value) -> Vec<String> {
    if schema.is_null() {
        return Vec::new();
    }
    let validator = validator_for(name, schema);
    validator.iter_errors(example).map(|error| format!("{name}: {error} at {}", error.instance_path())).collect()
}

#[test]
fn every_operation_has_a_valid_example() {
    let problems: Vec<String> = operations().iter().flat_map(problems).collect();
    assert!(problems.is_empty(), "run `make api-examples`: {problems:#?}");
}

/// Replaces what differs from run to run: folders, and ports on the local machine.
fn neutral(text: &str) -> String {
    let temp = std::env::temp_dir();
    let text = replace_word(text, &format!("{}/agentd-test-", temp.display()), "/var/lib/agentd");
    let text = replace_word(&text, &format!("{}/.tmp", temp.display()), "/home/owner/files");
    let text = text.replace("/var/lib/agentd/data", "/var/lib/agentd");
    let text = text.replace(&root().display().to_string(), "/opt/agentd");
    replace_word(&text, "127.0.0.1:", "127.0.0.1:8080")
}

/// Replaces each word that begins with `prefix`.
fn replace_word(text: &str, prefix: &str, replacement: &str) -> String {
    let mut parts = text.split(prefix);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str(replacement);
        result.push_str(part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '-'));
    }
    result
}

/// Keeps the first entry of every list.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.truncate(1);
            items.iter_mut().for_each(shorten);
        }
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

#[test]
#[ignore = "rewrites the examples from the record of a complete run; `make api-examples` calls it"]
fn examples_are_written_from_the_record() {
    let mut chosen: BTreeMap<String, Value> = BTreeMap::new();
    for call in examples::read(&record::folder().expect("AGENTD_TEST_RECORD names a folder")) {
        let id = call["id"].as_str().expect("an id").to_owned();
        let Some(operation) = operations().iter().find(|operation| operation.id == id) else { continue };
        let text = neutral(&call.to_string());
        // A reference within an example would look like one of the document.
        if chosen.contains_key(&id) || WITHOUT_RESPONSE.contains(&id.as_str()) || text.contains("\"$ref\"") {
            continue;
        }
        let call: Value = serde_json::from_str(&text).expect("JSON");
        let body = content(&operation.value["requestBody"], "application/json");
        if !body.is_null() && !call["request"].is_null() && !invalid(&id, &body["schema"], &call["request"]).is_empty()
        {
            continue;
        }
        let needs_request =
            operation.value["requestBody"]["required"] == true && !WITHOUT_REQUEST.contains(&id.as_str());
        if needs_request && !body.is_null() && call["request"].is_null() {
            continue;
        }
        let mut call = call;
        for part in ["request", "response"] {
            if call[part].to_string().len() > MAX_LENGTH {
                shorten(&mut call[part]);
            }
        }
        let example = json!({
            "target": call["target"], "request": call["request"], "status": call["status"],
            "response": call["response"],
        });
        chosen.insert(id, example);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let text = serde_json::to_string_pretty(&chosen).expect("JSON");
    std::fs::write(path, text + "\n").expect("written");
}
