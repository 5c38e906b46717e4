//! The [`Tool`] trait and its types.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_sandbox::{Captured, Ended, RunOutcome};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::schema::InputSchema;
use crate::agents::Agent;
use crate::code_runner::{CodeError, CodeOutcome};
use crate::workspaces::{UntrustedSource, WorkspaceError};

/// Side effects of a tool; determines whether a call needs an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Reads the agent's own data: its workspace, its memory, the clock.
    Reads,
    /// Changes data, runs code, or accesses external systems.
    Acts,
}

/// Author of a text that a model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Author {
    /// The daemon, the agent, or its owner.
    Trusted,
    /// A third party, as displayed to the owner: `the tool server "wiki"`.
    Other(String),
}

/// Effect of one call outside the agent's own workspace and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consequence {
    /// No effect.
    Contained,
    /// Requests this URL and sends nothing else.
    Requests(Url),
    /// Sends data written by the agent to this host.
    SendsTo(String),
    /// Runs code, sends data, or changes something persistently.
    Acts,
}

/// Description of a tool for models and owners.
#[derive(Debug, Clone)]
pub struct ToolDescription {
    /// `[a-zA-Z0-9_-]{1,64}`, which every vendor accepts.
    pub name: String,
    pub description: String,
    pub input_schema: InputSchema,
    pub effect: Effect,
    /// Time limit of one call.
    pub time_limit: Duration,
}

/// Context of a tool call.
#[derive(Debug, Clone)]
pub struct ToolCallContext {
    pub agent: Arc<Agent>,
    /// The agent's folder; it exists.
    pub workspace: PathBuf,
    pub session_id: String,
    pub conversation_id: Option<String>,
    /// Unique for each call, independent of the id that the model chose.
    pub call_id: String,
    /// Cancelled when the result is no longer needed. A tool that holds external resources releases them; the future
    /// may be dropped right after.
    pub cancelled: CancellationToken,
    /// Whether the calling turn contains untrusted text.
    pub has_untrusted_text: bool,
    /// Approved [`fingerprint_of`] the tool, if the call required an approval.
    pub approved: Option<String>,
    /// Set by trusted tools that read untrusted text in this call.
    pub untrusted: UntrustedSource,
}

/// Maximum size of each output stream of code in a result; the middle is omitted with a note.
const MAX_STREAM_BYTES: usize = 48 * 1024;

/// Maximum length of a result that a model receives in the turn that produced it.
pub const MAX_READ_CHARACTERS: usize = 30_000;

/// Longer JSON is not pretty-printed: deep nesting could make it a hundred times as long.
const MAX_PRETTY_BYTES: usize = 512 * 1024;

/// Result of a tool: a JSON object. If `text` is the only field, the model reads its value alone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    pub value: Map<String, Value>,
    /// Full text for storage if `value` is only a part.
    pub whole: Option<String>,
    /// Total number of bytes if it exceeds what is included here.
    pub whole_bytes: Option<usize>,
}

impl ToolOutput {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let value = Map::from_iter([("text".to_owned(), Value::String(text.into()))]);
        Self { value, ..Self::default() }
    }

    /// Creates a result from JSON; a value that is not an object becomes `{"result": …}`.
    #[must_use]
    pub fn json(value: Value) -> Self {
        match value {
            Value::Object(value) => Self { value, ..Self::default() },
            other => Self { value: Map::from_iter([("result".to_owned(), other)]), ..Self::default() },
        }
    }

    /// Returns the text that the model reads.
    #[must_use]
    pub fn for_model(&self) -> String {
        match self.value.get("text") {
            Some(Value::String(text)) if self.value.len() == 1 => text.clone(),
            _ => Value::Object(self.value.clone()).to_string(),
        }
    }

    /// Renders the result for line-based reading: program output as is, other JSON pretty-printed.
    #[must_use]
    pub fn to_lines(&self) -> String {
        match self.value.get("text") {
            Some(Value::String(text)) if self.value.len() == 1 => return text.clone(),
            _ => {}
        }
        let has_lines = |value: &Value| value.as_str().is_some_and(|text| text.contains('\n'));
        let is_flat = self.value.values().all(|value| !value.is_array() && !value.is_object());
        if !is_flat || !self.value.values().any(has_lines) {
            let compact = serde_json::to_string(&self.value).unwrap_or_default();
            if compact.len() > MAX_PRETTY_BYTES {
                return compact;
            }
            return serde_json::to_string_pretty(&self.value).unwrap_or_default();
        }
        let mut text = String::new();
        for (name, value) in self.value.iter().filter(|(_, value)| !has_lines(value)) {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.push_str(&format!("{name}: {shown}\n"));
        }
        for (name, value) in self.value.iter().filter(|(_, value)| has_lines(value)) {
            text.push_str(&format!("\n{name}:\n{}\n", value.as_str().unwrap_or_default().trim_end_matches('\n')));
        }
        text
    }
}

/// Error of a tool call. The model reads the sentence and may try again differently.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The request is not valid.
    #[error("{0}")]
    Invalid(String),
    /// The attempt failed.
    #[error("{0}")]
    Failed(String),
    #[error("the tool did not answer within {} seconds", .0.as_secs())]
    TimedOut(Duration),
    #[error("the call was cancelled")]
    Cancelled,
}

impl From<WorkspaceError> for ToolError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Io { .. } => Self::Failed(error.to_string()),
            _ => Self::Invalid(error.to_string()),
        }
    }
}

impl From<CodeError> for ToolError {
    fn from(error: CodeError) -> Self {
        match error {
            CodeError::NotRun(reason) => Self::Failed(reason),
            CodeError::Cancelled => Self::Cancelled,
        }
    }
}

impl From<CodeOutcome> for ToolOutput {
    /// Builds `{exit_code, stdout, stderr, ended}` with each stream limited to the size of a result. If something is
    /// omitted, the full output is included for storage.
    fn from(outcome: CodeOutcome) -> Self {
        let RunOutcome { ended, stdout, stderr, .. } = outcome.into_run();
        let exit_code = match ended {
            Ended::Exited { code } => Value::from(code),
            _ => Value::Null,
        };
        let is_long = |stream: &Captured| stream.head.len() + stream.tail.len() > MAX_STREAM_BYTES;
        let whole = (is_long(&stdout) || is_long(&stderr)).then(|| {
            let (stdout, stderr) = (stdout.to_text(), stderr.to_text());
            format!("ended: {ended}\nexit_code: {exit_code}\n\nstderr:\n{stderr}\n\nstdout:\n{stdout}\n")
        });
        let value = Map::from_iter([
            ("exit_code".to_owned(), exit_code),
            ("stdout".to_owned(), Value::from(stdout.shortened(MAX_STREAM_BYTES).to_text())),
            ("stderr".to_owned(), Value::from(stderr.shortened(MAX_STREAM_BYTES).to_text())),
            ("ended".to_owned(), Value::from(ended.to_string())),
        ]);
        Self { value, whole, whole_bytes: None }
    }
}

/// SHA-256, in hex, of a tool's implementation and description: an approval applies to exactly these. Empty for a tool
/// that cannot be changed.
#[must_use]
pub fn fingerprint_of(tool: &dyn Tool) -> String {
    let Some(implementation) = tool.implementation() else { return String::new() };
    let ToolDescription { name, description, input_schema, effect, time_limit: _ } = tool.description();
    let acts = *effect == Effect::Acts;
    let whole = json!([implementation, name, description, input_schema.value(), acts]);
    hex::encode(Sha256::digest(whole.to_string()))
}

/// Group of a tool for the tool limit: earlier groups have priority, and members of one group are selected in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share<'a> {
    /// Built-in tools.
    BuiltIn,
    /// Tools of the owner: of a device, by its id, or custom tools.
    Owner(&'a str),
    /// Tools of a tool server, by its id.
    Server(&'a str),
}

impl Share<'_> {
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::BuiltIn => 0,
            Self::Owner(_) => 1,
            Self::Server(_) => 2,
        }
    }
}

/// A capability that an agent can call. Calls run concurrently.
pub trait Tool: Send + Sync + std::fmt::Debug {
    fn description(&self) -> &ToolDescription;

    /// Group of the tool if the tool limit is exceeded.
    fn share(&self) -> Share<'_> {
        Share::BuiltIn
    }

    /// Author of the description and the input schema.
    fn description_author(&self) -> Author;

    /// Author of results and errors. A trusted tool that reads untrusted text in a single call records that in
    /// [`ToolCallContext::untrusted`].
    fn output_author(&self) -> Author;

    /// Effect of a call with this input outside the agent's own data. `input` matches the schema.
    fn consequence<'a>(&'a self, _input: &'a Map<String, Value>, _agent: &'a Agent) -> BoxFuture<'a, Consequence> {
        let consequence = match self.description().effect {
            Effect::Reads => Consequence::Contained,
            Effect::Acts => Consequence::Acts,
        };
        std::future::ready(consequence).boxed()
    }

    /// Identifies what a call runs besides its input: code, a request, a server. `None` for a tool that cannot be
    /// changed.
    fn implementation(&self) -> Option<Value> {
        None
    }

    /// Runs the tool once. `input` matches the schema.
    fn call(&self, input: Map<String, Value>, context: ToolCallContext)
    -> BoxFuture<'_, Result<ToolOutput, ToolError>>;
}

/// Source of tools: built-in tools, custom tools, tool servers, devices, other domains.
pub trait ToolSource: Send + Sync {
    /// Name for logs.
    fn name(&self) -> &'static str;

    /// Returns the tools available to this agent, in a stable order. Called before each turn, so it answers from
    /// memory.
    fn tools<'a>(&'a self, agent: &'a Agent) -> BoxFuture<'a, Vec<Arc<dyn Tool>>>;

    /// Whether this source has a tool of this name for any agent.
    fn has_tool<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Names reserved for this source: custom tools cannot use them.
    fn reserved_names(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_rendered_line_by_line() {
        let ran =
            ToolOutput::json(json!({"exit_code": 0, "stdout": "a \"b\"\nc\n", "stderr": "", "ended": "by itself"}));
        let text = ran.to_lines();
        assert!(text.contains("exit_code: 0\n") && text.ends_with("\nstdout:\na \"b\"\nc\n"), "{text}");
        assert_eq!(ToolOutput::text("a\nb").to_lines(), "a\nb");
        let nested = ToolOutput::json(json!({"rows": [{"a": "x\ny"}, {"a": 2}]})).to_lines();
        assert!(nested.lines().count() > 5 && serde_json::from_str::<Value>(&nested).is_ok(), "{nested}");
    }
}
