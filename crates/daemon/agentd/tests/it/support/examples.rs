//! Records calls as candidates for the examples of the API document, in the folder `AGENTD_TEST_RECORD`.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use serde_json::{Value, json};

use super::document::Operation;
use super::record;

/// Longest part of a text that is not JSON, in characters.
const MAX_TEXT: usize = 1000;
/// Examples that are longer are unlikely to be chosen, in bytes.
const GOOD_LENGTH: usize = 1600;

static BEST: LazyLock<Mutex<HashMap<String, i64>>> = LazyLock::new(Mutex::default);

/// A call that may become the example of its operation.
pub struct Call<'call> {
    pub operation: &'call Operation,
    /// Path and query.
    pub target: &'call str,
    pub request: Option<&'call Value>,
    pub status: u16,
    pub content_type: &'call str,
    pub body: &'call [u8],
}

impl Call<'_> {
    /// Records the call if it succeeded and is more instructive than those before it.
    pub fn record(&self) {
        let Some(folder) = record::folder() else { return };
        if !(200..300).contains(&self.status) {
            return;
        }
        let response = if self.content_type.starts_with("application/json") {
            serde_json::from_slice(self.body).ok()
        } else if self.content_type.starts_with("text/") {
            let text = String::from_utf8_lossy(self.body);
            Some(Value::from(text.chars().take(MAX_TEXT).collect::<String>()))
        } else {
            None
        };
        let score = self.request.map_or(0, score)
            + match &response {
                // The beginning of a text or event stream: the longer, the better.
                Some(Value::String(text)) => i64::try_from(text.len()).unwrap_or(i64::MAX),
                Some(response) => score(response),
                None => 0,
            };
        let mut best = BEST.lock().expect("no test panicked here");
        let former = best.entry(self.operation.id.clone()).or_insert(i64::MIN);
        if score <= *former {
            return;
        }
        *former = score;
        let line = json!({
            "id": self.operation.id, "score": score, "target": self.target, "request": self.request,
            "status": self.status, "response": response,
        });
        let folder = folder.join("examples");
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(std::process::id().to_string());
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        writeln!(file.expect("a file in the folder"), "{line}").expect("written");
    }
}

/// Reads the recorded calls, the most instructive ones first.
pub fn read(folder: &Path) -> Vec<Value> {
    let mut calls = Vec::new();
    for entry in std::fs::read_dir(folder.join("examples")).expect("recorded examples") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("a file of lines");
        calls.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a recorded call")));
    }
    calls.sort_by_key(|call| std::cmp::Reverse(call["score"].as_i64()));
    calls
}

/// Rates how much an example shows: fields with values count, oddities of tests and great length count against it.
fn score(value: &Value) -> i64 {
    let excess = value.to_string().len().saturating_sub(GOOD_LENGTH);
    fields(value) - i64::try_from(excess / 10).unwrap_or(i64::MAX)
}

fn fields(value: &Value) -> i64 {
    match value {
        Value::Null => 0,
        Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) if text.is_empty() => 0,
        Value::String(text) if !text.is_ascii() || text.contains(|c: char| c.is_control() && c != '\n') => -5,
        Value::String(text) if text.len() > 200 || text.trim() != text => -5,
        Value::String(text) => {
            if text.len() < 3 {
                1
            } else {
                3
            }
        }
        Value::Array(items) => {
            let more = i64::try_from(items.len().saturating_sub(2)).unwrap_or(i64::MAX);
            items.iter().take(2).map(fields).sum::<i64>() - more
        }
        Value::Object(map) => map.values().map(fields).sum(),
    }
}
