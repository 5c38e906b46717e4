//! Running a hook's code in the sandbox. It finds `event` and `config`, and leaves a `result`, or a function
//! `run(event)` that answers one; what it prints is kept too.

use agentd_engine::code_runner::{PythonError, PythonJob};
use agentd_engine::workspaces::UntrustedSource;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::attempt::{Attempt, Failure, Work, read_event};
use crate::hooks::cache::LoadedHook;
use crate::hooks::model::{ExecutionStatus, PythonAction, SECRET};

/// A longer result is not kept.
const OUTPUT_BYTES: usize = 64 * 1024;
const PRINTED_BYTES: usize = 16 * 1024;

impl Work<'_> {
    pub(super) async fn run_python(&self, python: &PythonAction) -> Attempt {
        let hook = self.hook;
        let secret = match &hook.secret {
            Ok(secret) => secret,
            Err(problem) => return Attempt::Failed(Failure::for_good(problem.clone())),
        };
        let mut config = match &hook.code_config {
            Ok(config) => config.clone(),
            Err(problem) => return Attempt::Failed(Failure::for_good(problem.clone())),
        };
        if let Some(secret) = secret {
            config.insert(SECRET.to_owned(), Value::from(secret.expose()));
        }
        let workspace = match &hook.hook.agent_id {
            None => None,
            Some(agent) => match self.workspace(agent.as_str()).await {
                Ok(path) => Some(path),
                Err(problem) => return Attempt::Failed(Failure::for_good(problem)),
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
        // A drain waits for it, and cuts it off by ending the daemon.
        let cancelled = CancellationToken::new();
        match self.hooks.dependencies().runner.run_python(&self.hooks.context().entropy, job, &cancelled).await {
            Ok(answer) => Attempt::Done(kept(json!({"result": answer.result, "printed": answer.printed}), hook)),
            Err(error) => {
                let status = match error {
                    PythonError::TimedOut { .. } => ExecutionStatus::Timeout,
                    _ => ExecutionStatus::Error,
                };
                let output = match &error {
                    PythonError::NotRun(_) => None,
                    _ => Some(kept(json!({"result": null, "printed": error.printed()}), hook)),
                };
                // A traceback shows the line that failed, and with it perhaps the secret.
                let message = hook.redactor.hide(error.to_string());
                Attempt::Failed(Failure { status, output, ..Failure::for_good(message) })
            }
        }
    }

    async fn workspace(&self, agent: &str) -> Result<std::path::PathBuf, String> {
        let agents = &self.hooks.dependencies().agents;
        let agent = agents.get(agent).await.map_err(|error| error.to_string())?;
        agents.workspace(&agent).map_err(|error| error.to_string())
    }
}

/// What is kept of an output: bounded, and without the secret.
fn kept(mut output: Value, hook: &LoadedHook) -> Value {
    hook.redactor.hide_json(&mut output);
    bounded(output)
}

fn bounded(mut output: Value) -> Value {
    if output.to_string().len() > OUTPUT_BYTES {
        let printed = output["printed"].as_str().unwrap_or_default();
        let printed = printed[..printed.floor_char_boundary(PRINTED_BYTES)].to_owned();
        output["printed"] = Value::from(printed);
    }
    if output.to_string().len() > OUTPUT_BYTES {
        output["result"] = Value::Null;
        output["result_left_out"] = Value::from(format!("it has more than {OUTPUT_BYTES} bytes"));
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let long = "ä".repeat(OUTPUT_BYTES);
        let kept = bounded(json!({"result": 1, "printed": long}));
        assert_eq!(kept["result"], 1);
        assert!(kept.to_string().len() <= OUTPUT_BYTES);
        let kept = bounded(json!({"result": long, "printed": "x"}));
        assert_eq!((&kept["result"], &kept["printed"]), (&Value::Null, &json!("x")));
    }
}
