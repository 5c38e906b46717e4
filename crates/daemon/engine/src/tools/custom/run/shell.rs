//! Runs a shell tool: a script that receives its input on standard input and in environment variables.

use std::ffi::OsString;
use std::time::Duration;

use agentd_sandbox::RunRequest;
use serde_json::{Map, Value};

use crate::code_runner::{CodeRunner, Interpreter, READ_BYTES};
use crate::tools::tool::{ToolCallContext, ToolError, ToolOutput};

/// Maximum size of one variable; longer values are only on standard input.
const MAX_VARIABLE_BYTES: usize = 32 * 1024;
/// Maximum total size of the variables; a program's environment is limited to a few hundred kilobytes.
const MAX_VARIABLES_BYTES: usize = 128 * 1024;

pub(super) async fn run(
    runner: &CodeRunner,
    source: &str,
    input: &Map<String, Value>,
    timeout: Duration,
    context: &ToolCallContext,
) -> Result<ToolOutput, ToolError> {
    let mut request = RunRequest::new(Interpreter::shell_program(), ["-c", source]);
    request.environment = variables(input);
    request.stdin = Value::Object(input.clone()).to_string().into_bytes();
    request.limits.kept_bytes = READ_BYTES;
    request.limits.time = Some(timeout);
    let outcome = runner.run(request, Some(&context.workspace), &context.cancelled, &context.untrusted).await?;
    Ok(outcome.into())
}

/// Returns `INPUT_<NAME>` for each field: strings as is, other values as JSON.
fn variables(input: &Map<String, Value>) -> Vec<(OsString, OsString)> {
    let mut variables = Vec::new();
    let mut left = MAX_VARIABLES_BYTES;
    for (name, value) in input {
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let name: String = name.chars().map(upper).collect();
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let size = name.len() + value.len();
        if value.len() > MAX_VARIABLE_BYTES || size > left || value.contains('\0') || name.len() > 200 {
            continue;
        }
        left -= size;
        variables.push((format!("INPUT_{name}").into(), value.into()));
    }
    variables
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn input_fields_become_environment_variables() {
        let input = json!({"city": "Köln", "max-count": 3, "list": [1], "none": null, "nul": "a\u{0}b", "long": "x".repeat(MAX_VARIABLE_BYTES + 1)});
        let found = variables(input.as_object().unwrap());
        let expected = [("INPUT_CITY", "Köln"), ("INPUT_LIST", "[1]"), ("INPUT_MAX_COUNT", "3"), ("INPUT_NONE", "")];
        let mut found: Vec<(String, String)> = found
            .into_iter()
            .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
            .collect();
        found.sort();
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
