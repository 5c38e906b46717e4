//! A Python tool: a program that finds the dict `input` and leaves an answer.

use std::time::Duration;

use agentd_base::Entropy;
use agentd_sandbox::RunRequest;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::skills::sandbox::CodeRunner;
use crate::skills::tool::{ToolCallContext, ToolError, ToolOutput};

/// Runs a tool's program and writes the answer behind everything else.
const DRIVER: &str = include_str!("driver.py");
/// Of what went wrong, the end, where Python says it.
const SHOWN_ERROR_CHARACTERS: usize = 2_000;

/// What the driver writes.
#[derive(Deserialize)]
struct Answer {
    /// Whether the program left an answer.
    answered: bool,
    result: Value,
    printed: String,
}

pub(super) async fn run(
    runner: &CodeRunner,
    entropy: &Entropy,
    source: &str,
    input: Map<String, Value>,
    timeout: Duration,
    context: &ToolCallContext,
) -> Result<ToolOutput, ToolError> {
    // Unknown to the program until it runs, so that nothing printed by accident looks like it.
    let mark = hex::encode(entropy.bytes::<16>());
    let mut request = RunRequest::new("python3", ["-c", DRIVER]);
    request.stdin = json!({"source": source, "input": input, "mark": mark}).to_string().into_bytes();
    request.limits.time = Some(timeout);
    let outcome = runner.run(request, context).await?;
    if !outcome.is_success() {
        let stderr = outcome.stderr();
        let skipped = stderr.chars().count().saturating_sub(SHOWN_ERROR_CHARACTERS);
        let shown: String = stderr.chars().skip(skipped).collect();
        return Err(ToolError::Failed(format!("the tool's program {}: {}", outcome.ended(), shown.trim())));
    }
    let answer = outcome.last_output().and_then(|output| answer_in(&output, &mark));
    let Some(answer) = answer else {
        return Err(ToolError::Failed("the tool's program left no answer, or one that is too long".to_owned()));
    };
    if answer.answered {
        return Ok(match answer.result {
            Value::String(text) => ToolOutput::text(text),
            other => ToolOutput::json(other),
        });
    }
    Ok(ToolOutput::text(answer.printed))
}

fn answer_in(output: &str, mark: &str) -> Option<Answer> {
    let (_, answer) = output.rsplit_once(mark)?;
    serde_json::from_str(answer).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_found_behind_what_was_printed() {
        let found = answer_in("noise\nabc{\"answered\":true,\"result\":[1],\"printed\":\"\"}\n", "abc").unwrap();
        assert_eq!((found.answered, found.result), (true, json!([1])));
        for bad in ["", "abc", "abc{", "x{\"answered\":true}"] {
            assert!(answer_in(bad, "abc").is_none());
        }
    }
}
