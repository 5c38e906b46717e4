//! Runs a Python tool: a program that receives the dict `input` and produces a result.

use std::time::Duration;

use agentd_base::Entropy;
use serde_json::{Map, Value};

use crate::code_runner::{CodeRunner, PythonError, PythonJob};
use crate::tools::tool::{ToolCallContext, ToolError, ToolOutput};

pub(super) async fn run(
    runner: &CodeRunner,
    entropy: &Entropy,
    source: &str,
    input: Map<String, Value>,
    timeout: Duration,
    context: &ToolCallContext,
) -> Result<ToolOutput, ToolError> {
    let job = PythonJob {
        source: source.to_owned(),
        globals: Map::from_iter([("input".to_owned(), Value::Object(input))]),
        argument: "input",
        timeout,
        workspace: Some(context.workspace.clone()),
        untrusted: context.untrusted.clone(),
    };
    let answer =
        runner.run_python_with_long_result(entropy, job, &context.cancelled).await.map_err(|error| match error {
            PythonError::NotRun(error) => error.into(),
            error => ToolError::Failed(format!("the tool failed: {error}")),
        })?;
    if answer.answered {
        return Ok(match answer.result {
            Value::String(text) => ToolOutput::text(text),
            other => ToolOutput::json(other),
        });
    }
    Ok(ToolOutput::text(answer.printed))
}
