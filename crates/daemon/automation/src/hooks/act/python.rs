//! Running a hook's code in the sandbox. The code reads `event` and `config`, and sets `result` or defines `run(event)`
//! that returns it. Printed output is stored too.

use agentd_engine::code_runner::{PythonError, PythonJob};
use agentd_engine::workspaces::UntrustedSource;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, Failure, Work, read_event};
use crate::hooks::cache::LoadedHook;
use crate::hooks::model::{ExecutionStatus, PythonAction, SECRET};

/// Maximum size of stored output, in bytes. A larger result is omitted.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// Maximum size of the printed text in truncated output, in bytes.
const MAX_PRINTED_BYTES: usize = 16 * 1024;

impl Work<'_> {
    pub(super) async fn run_python(&self, python: &PythonAction) -> Attempt {
        let hook = self.hook;
        let secret = match &hook.secret {
            Ok(secret) => secret,
            Err(problem) => return Attempt::Failed(Failure::permanent(problem.clone())),
        };
        let mut config = match &hook.code_config {
            Ok(config) => config.clone(),
            Err(problem) => return Attempt::Failed(Failure::permanent(problem.clone())),
        };
        if let Some(secret) = secret {
            config.insert(SECRET.to_owned(), Value::from(secret.expose()));
        }
        let workspace = match &hook.hook.agent_id {
            None => None,
            Some(agent) => match self.workspace(agent.as_str()).await {
                Ok(path) => Some(path),
                Err(problem) => return Attempt::Failed(Failure::permanent(problem)),
            },
        };
        let event = match read_event(self.claim) {
            Ok(event) => event,
            Err(failure) => return Attempt::Failed(failure),
        };
        let job = PythonJob {
            source: hook.hook.source_code.clone().unwrap_or_default(),
            globals: Map::from_iter([("event".to_owned(), event), ("config".to_owned(), Value::Object(config))]),
            argument: "event",
            timeout: python.timeout,
            workspace,
            untrusted: UntrustedSource::default(),
        };
        // Never cancelled: a drain waits for the code, and the end of the daemon terminates it.
        let cancelled = CancellationToken::new();
        match self.hooks.dependencies().runner.run_python(&self.hooks.context().entropy, job, &cancelled).await {
            Ok(answer) => {
                Attempt::Done(stored_output(json!({"result": answer.result, "printed": answer.printed}), hook))
            }
            Err(error) => {
                let status = match error {
                    PythonError::TimedOut { .. } => ExecutionStatus::Timeout,
                    _ => ExecutionStatus::Error,
                };
                let output = match &error {
                    PythonError::NotRun(_) => None,
                    _ => Some(stored_output(json!({"result": null, "printed": error.printed()}), hook)),
                };
                // A traceback shows the failed line, which may contain the secret.
                let message = hook.redactor.redact(error.to_string());
                Attempt::Failed(Failure { status, output, ..Failure::permanent(message) })
            }
        }
    }

    async fn workspace(&self, agent: &str) -> Result<std::path::PathBuf, String> {
        let agents = &self.hooks.dependencies().agents;
        let agent = agents.get(agent).await.map_err(|error| error.to_string())?;
        agents.workspace(&agent).map_err(|error| error.to_string())
    }
}

/// Redacts and truncates an output for storage.
fn stored_output(mut output: Value, hook: &LoadedHook) -> Value {
    hook.redactor.redact_json(&mut output);
    truncate_output(output)
}

fn truncate_output(mut output: Value) -> Value {
    if output.to_string().len() > MAX_OUTPUT_BYTES {
        let printed = output["printed"].as_str().unwrap_or_default();
        let printed = printed[..printed.floor_char_boundary(MAX_PRINTED_BYTES)].to_owned();
        output["printed"] = Value::from(printed);
    }
    if output.to_string().len() > MAX_OUTPUT_BYTES {
        output["result"] = Value::Null;
        output["result_left_out"] = Value::from(format!("the result has more than {MAX_OUTPUT_BYTES} bytes"));
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_output_is_truncated() {
        let long = "ä".repeat(MAX_OUTPUT_BYTES);
        let stored_output = truncate_output(json!({"result": 1, "printed": long}));
        assert_eq!(stored_output["result"], 1);
        assert!(stored_output.to_string().len() <= MAX_OUTPUT_BYTES);
        let stored_output = truncate_output(json!({"result": long, "printed": "x"}));
        assert_eq!((&stored_output["result"], &stored_output["printed"]), (&Value::Null, &json!("x")));
    }
}
