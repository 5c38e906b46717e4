//! Shell tool of the device: runs commands in a sandbox.

use std::path::PathBuf;
use std::time::Duration;

use agentd_engine::code_runner::INIT_SUBCOMMAND;
use agentd_process::Spawner;
use agentd_sandbox::{Backend, Policy, RunLimits, RunRequest, Sandbox, SandboxSetup};
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::State;
use crate::cli::error::CliError;
use crate::cli::terminal::print_message;

pub(super) const NAME: &str = "shell";
const DEFAULT_TIMEOUT_SECONDS: u64 = 60;
/// Maximum command timeout, shorter than the daemon's timeout for tool calls.
const MAX_TIMEOUT_SECONDS: u64 = 240;
const MEMORY_LIMIT_MB: u64 = 2048;
/// Retained bytes of each output stream. A frame can contain both, even if every byte must be escaped.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
const MAX_COMMAND_CHARACTERS: usize = 32_768;

/// Shell tool. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    sandbox: Sandbox,
    directory: PathBuf,
}

#[derive(Deserialize)]
struct Input {
    command: String,
    timeout_seconds: Option<u64>,
}

impl Shell {
    /// Sets up and tests the sandbox, or disables it if requested.
    ///
    /// # Errors
    /// `CliError` if this machine has no working sandbox or a directory cannot be created.
    pub(super) async fn open(
        state: &State,
        directory: Option<PathBuf>,
        is_unprotected: bool,
    ) -> Result<Self, CliError> {
        let directory = directory.unwrap_or_else(|| state.path().join("workspace"));
        std::fs::create_dir_all(&directory).map_err(CliError::file("creating", &directory))?;
        let directory = directory.canonicalize().map_err(CliError::file("resolving", &directory))?;
        let machine = |source| CliError::Machine { source };
        let setup = SandboxSetup {
            spawner: Spawner::start().map_err(|error| machine(std::io::Error::other(error)))?,
            program: std::env::current_exe().map_err(machine)?,
            init_arguments: vec![INIT_SUBCOMMAND.into()],
            state_directory: state.path().join("sandbox"),
            data_directory: state.path().to_path_buf(),
            control_groups: true,
        };
        let policy = Policy {
            backend: if is_unprotected { Backend::None } else { Backend::Auto },
            timeout_seconds: MAX_TIMEOUT_SECONDS,
            memory_limit_mb: MEMORY_LIMIT_MB,
            ..Policy::default()
        };
        let sandbox = Sandbox::new(setup, policy).map_err(machine)?;
        let status = sandbox.status().await;
        let Some(tier) = status.tier else {
            let remedy = status.remedy.map(|remedy| format!(" To fix this: {remedy}.")).unwrap_or_default();
            return Err(CliError::Usage(format!(
                "no sandbox is available on this machine, so the shell is not offered: {}.{remedy} With --no-sandbox, agents run commands with all permissions of this user",
                status.reason
            )));
        };
        if is_unprotected {
            print_message("warning: agents may run any command as this user, without a sandbox");
        } else {
            print_message(format_args!("agents may run commands in {}, in the sandbox `{tier}`", directory.display()));
        }
        Ok(Self { sandbox, directory })
    }

    /// Returns the registration of the tool.
    pub(super) fn describe(&self) -> Value {
        json!({
            "name": NAME,
            "description": "Runs a command with /bin/sh and answers its exit code and output. It works in a folder of \
                            its own, which keeps its files between commands.",
            "input_schema": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "minLength": 1, "maxLength": MAX_COMMAND_CHARACTERS},
                    "timeout_seconds": {
                        "type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_SECONDS, "default": DEFAULT_TIMEOUT_SECONDS,
                    },
                },
                "required": ["command"],
                "additionalProperties": false,
            },
        })
    }

    /// Runs a command to completion. Dropping the future kills the command and all its child processes.
    ///
    /// # Errors
    /// A message with the reason why the command was not run.
    pub(super) async fn run(&self, input: Value) -> Result<Value, String> {
        let Input { command, timeout_seconds } =
            serde_json::from_value(input).map_err(|error| format!("the input is not valid: {error}"))?;
        let seconds = timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS).clamp(1, MAX_TIMEOUT_SECONDS);
        // Escaped, so that the output shows exactly what runs.
        print_message(format_args!("→ shell: {}", command.escape_debug()));
        let request = RunRequest {
            working_directory: Some(self.directory.clone()),
            writable_paths: vec![self.directory.clone()],
            limits: RunLimits {
                time: Some(Duration::from_secs(seconds)),
                kept_bytes: MAX_OUTPUT_BYTES,
                ..RunLimits::default()
            },
            ..RunRequest::new("/bin/sh", ["-c", command.as_str()])
        };
        let outcome = self.sandbox.run(request).await.map_err(|error| {
            print_message(format_args!("← refused: {error}"));
            error.to_string()
        })?;
        let bytes = outcome.stdout.total_bytes() + outcome.stderr.total_bytes();
        let milliseconds = outcome.duration.as_millis();
        print_message(format_args!("← {} after {milliseconds} ms, {bytes} bytes of output", outcome.ended));
        let exit_code = match outcome.ended {
            agentd_sandbox::Ended::Exited { code } => Some(code),
            _ => None,
        };
        Ok(json!({
            "exit_code": exit_code,
            "ended": outcome.ended.to_string(),
            "stdout": outcome.stdout.to_text(),
            "stderr": outcome.stderr.to_text(),
        }))
    }
}
