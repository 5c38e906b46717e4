//! The tools `shell` and `python`: code in the sandbox, in the agent's workspace.

use std::sync::Arc;
use std::time::Duration;

use agentd_sandbox::RunRequest;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::input::{describe, parse};
use crate::code_runner::{CodeRunner, Interpreter, READ_BYTES, SandboxSettings};
use crate::tools::tool::{Author, Effect, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput};

/// Below MAX_ARG_STRLEN, the maximum length of a single program argument including its terminator.
const MAX_CODE_BYTES: usize = 120 * 1024;

/// Both tools; rebuilt when the settings in their descriptions change.
pub(super) struct CodeTools {
    runner: CodeRunner,
    cached: Mutex<Option<CachedTools>>,
}

struct CachedTools {
    timeout_seconds: u32,
    network: bool,
    tools: [Arc<dyn Tool>; 2],
}

impl CodeTools {
    pub(super) fn new(runner: CodeRunner) -> Self {
        Self { runner, cached: Mutex::new(None) }
    }

    /// Returns both tools, each with the reason why it is unavailable, if any.
    pub(super) fn all(&self) -> [(Arc<dyn Tool>, Option<String>); 2] {
        let [shell, python] = self.tools(&self.runner.settings());
        let problem = |interpreter| self.runner.problem(interpreter);
        [(shell, problem(Interpreter::Shell)), (python, problem(Interpreter::Python))]
    }

    fn tools(&self, settings: &SandboxSettings) -> [Arc<dyn Tool>; 2] {
        let mut cached = self.cached.lock();
        if let Some(cached) = &*cached
            && (cached.timeout_seconds, cached.network) == (settings.timeout_seconds, settings.network)
        {
            return cached.tools.clone();
        }
        let tools = [Interpreter::Shell, Interpreter::Python].map(|interpreter| {
            let description = description(interpreter, settings);
            let tool: Arc<dyn Tool> = Arc::new(CodeTool { interpreter, description, runner: self.runner.clone() });
            tool
        });
        let (timeout_seconds, network) = (settings.timeout_seconds, settings.network);
        *cached = Some(CachedTools { timeout_seconds, network, tools: tools.clone() });
        tools
    }
}

fn description(interpreter: Interpreter, settings: &SandboxSettings) -> ToolDescription {
    let (name, field, what, does) = match interpreter {
        Interpreter::Shell => ("shell", "command", "The command line", "Runs a command line"),
        Interpreter::Python => ("python", "code", "A program; print what you want to see", "Runs a Python 3 program"),
    };
    let network = if settings.network { "through a filtering proxy" } else { "none" };
    let text = format!(
        "{does} in a sandbox. The working directory is the workspace. Network: {network}. Answers exit_code, stdout and stderr."
    );
    let mut properties = Map::new();
    properties.insert(field.to_owned(), json!({"type": "string", "minLength": 1, "description": what}));
    let most = settings.timeout_seconds;
    let when = json!({"type": "integer", "minimum": 1, "maximum": most, "description": format!("Left out: {most}")});
    properties.insert("timeout_seconds".to_owned(), when);
    let schema =
        json!({"type": "object", "properties": properties, "required": [field], "additionalProperties": false});
    describe(name, &text, schema, Effect::Acts, CodeRunner::call_limit(Duration::from_secs(most.into())))
}

#[derive(Debug)]
struct CodeTool {
    interpreter: Interpreter,
    description: ToolDescription,
    runner: CodeRunner,
}

#[derive(Deserialize)]
struct Input {
    #[serde(alias = "command")]
    code: String,
    timeout_seconds: Option<u32>,
}

impl Tool for CodeTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn description_author(&self) -> Author {
        Author::Trusted
    }

    fn output_author(&self) -> Author {
        Author::Trusted
    }

    fn call(
        &self,
        input: Map<String, Value>,
        context: ToolCallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        async move {
            let input: Input = parse(input)?;
            if input.code.contains('\0') {
                return Err(ToolError::Invalid("code must not contain NUL characters".to_owned()));
            }
            if input.code.len() > MAX_CODE_BYTES {
                let message = format!("code must be at most {MAX_CODE_BYTES} bytes; write it to a file and run that");
                return Err(ToolError::Invalid(message));
            }
            let (program, arguments) = match self.interpreter {
                Interpreter::Shell => (Interpreter::shell_program(), ["-c".to_owned(), input.code]),
                Interpreter::Python => ("python3", ["-c".to_owned(), input.code]),
            };
            let mut request = RunRequest::new(program, arguments);
            request.limits.kept_bytes = READ_BYTES;
            request.limits.time = input.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into()));
            let ToolCallContext { workspace, cancelled, untrusted, .. } = &context;
            let outcome = self.runner.run(request, Some(workspace), cancelled, untrusted).await?;
            Ok(outcome.into())
        }
        .boxed()
    }
}
