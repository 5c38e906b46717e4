//! What a tool is.

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

/// What a tool does to the world; decides whether its owner is asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Looks at what is the agent's own already: its workspace, its memory, the clock.
    Reads,
    /// Changes something, runs code, or reaches outside.
    Acts,
}

/// Who wrote a text that a model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Author {
    /// The daemon, the agent, or its owner.
    Trusted,
    /// Somebody else, named for the owner: `the tool server "wiki"`.
    Other(String),
}

/// What one call does outside the agent's own workspace and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consequence {
    /// Nothing.
    Contained,
    /// Requests this address and sends nothing else.
    Requests(Url),
    /// Sends what the agent wrote to this host.
    SendsTo(String),
    /// Runs code, sends something, or changes something that lasts.
    Acts,
}

/// What a model and an owner are told about a tool.
#[derive(Debug, Clone)]
pub struct ToolDescription {
    /// `[a-zA-Z0-9_-]{1,64}`, which every vendor takes.
    pub name: String,
    pub description: String,
    pub input_schema: InputSchema,
    pub effect: Effect,
    /// One call may take no longer.
    pub time_limit: Duration,
}

/// Whose call it is, and where it runs.
#[derive(Debug, Clone)]
pub struct ToolCallContext {
    pub agent: Arc<Agent>,
    /// The agent's folder; it exists.
    pub workspace: PathBuf,
    pub session_id: String,
    pub conversation_id: Option<String>,
    /// Unique for each call, whatever the model called it.
    pub call_id: String,
    /// Cancelled when nobody waits for the answer any more. A tool that holds more than memory
    /// cleans up; the future may be dropped right after.
    pub cancelled: CancellationToken,
    /// Whether the turn that calls contains text that others wrote.
    pub has_untrusted_text: bool,
    /// What the owner approved, where the call had to be approved: the [`fingerprint_of`] the tool.
    pub approved: Option<String>,
    /// For a tool of a trusted author that reads text of others in this call.
    pub untrusted: UntrustedSource,
}

/// Of each stream of code as a result shows it; the middle of what is longer is left out, with a note.
const SHOWN_BYTES: usize = 48 * 1024;

/// Of a result, a model is given so much in the turn that made it.
pub const MAX_READ_CHARACTERS: usize = 30_000;

/// Longer JSON is not laid out: what is deeply nested would become a hundred times as long.
const MAX_LAID_OUT_BYTES: usize = 512 * 1024;

/// What a tool answers: a JSON object. A model reads `text` alone where there is nothing else.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    pub value: Map<String, Value>,
    /// All of it as text to be kept, where `value` is only a part.
    pub whole: Option<String>,
    /// How many bytes of text there were, where that is more than is here.
    pub whole_bytes: Option<usize>,
}

impl ToolOutput {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let value = Map::from_iter([("text".to_owned(), Value::String(text.into()))]);
        Self { value, ..Self::default() }
    }

    /// Anything that serializes to an object; other JSON becomes `{"result": …}`.
    #[must_use]
    pub fn json(value: Value) -> Self {
        match value {
            Value::Object(value) => Self { value, ..Self::default() },
            other => Self { value: Map::from_iter([("result".to_owned(), other)]), ..Self::default() },
        }
    }

    /// What the model is given to read.
    #[must_use]
    pub fn for_model(&self) -> String {
        match self.value.get("text") {
            Some(Value::String(text)) if self.value.len() == 1 => text.clone(),
            _ => Value::Object(self.value.clone()).to_string(),
        }
    }

    /// The same to be read line by line: what a program wrote as it wrote it, other JSON laid out.
    #[must_use]
    pub fn in_lines(&self) -> String {
        match self.value.get("text") {
            Some(Value::String(text)) if self.value.len() == 1 => return text.clone(),
            _ => {}
        }
        let has_lines = |value: &Value| value.as_str().is_some_and(|text| text.contains('\n'));
        let is_flat = self.value.values().all(|value| !value.is_array() && !value.is_object());
        if !is_flat || !self.value.values().any(has_lines) {
            let compact = serde_json::to_string(&self.value).unwrap_or_default();
            if compact.len() > MAX_LAID_OUT_BYTES {
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

/// Why a call did not do what was asked. The model reads the sentence and may try otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model asked for something that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// It was tried and did not work.
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
    /// `{exit_code, stdout, stderr, ended}`, of each stream what fits into a result. Where that leaves
    /// something out, all that was read goes with it.
    fn from(outcome: CodeOutcome) -> Self {
        let RunOutcome { ended, stdout, stderr, .. } = outcome.into_run();
        let exit_code = match ended {
            Ended::Exited { code } => Value::from(code),
            _ => Value::Null,
        };
        let is_long = |stream: &Captured| stream.head.len() + stream.tail.len() > SHOWN_BYTES;
        let whole = (is_long(&stdout) || is_long(&stderr)).then(|| {
            let (stdout, stderr) = (stdout.to_text(), stderr.to_text());
            format!("ended: {ended}\nexit_code: {exit_code}\n\nstderr:\n{stderr}\n\nstdout:\n{stdout}\n")
        });
        let value = Map::from_iter([
            ("exit_code".to_owned(), exit_code),
            ("stdout".to_owned(), Value::from(stdout.shortened(SHOWN_BYTES).to_text())),
            ("stderr".to_owned(), Value::from(stderr.shortened(SHOWN_BYTES).to_text())),
            ("ended".to_owned(), Value::from(ended.to_string())),
        ]);
        Self { value, whole, whole_bytes: None }
    }
}

/// SHA-256, in hex, over what a tool runs and everything that it says of itself: an approval holds for that alone.
/// Empty for a tool that cannot be changed.
#[must_use]
pub fn fingerprint_of(tool: &dyn Tool) -> String {
    let Some(implementation) = tool.implementation() else { return String::new() };
    let ToolDescription { name, description, input_schema, effect, time_limit: _ } = tool.description();
    let acts = *effect == Effect::Acts;
    let whole = json!([implementation, name, description, input_schema.value(), acts]);
    hex::encode(Sha256::digest(whole.to_string()))
}

/// Whose a tool is, where there are more than vendors take: what stands first here has room first, and those of one
/// kind take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share<'a> {
    /// The daemon's.
    BuiltIn,
    /// The owner's: a device's, by its id, or a custom one.
    Owner(&'a str),
    /// A tool server's, by its id.
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

/// One thing that an agent can do. Calls run side by side.
pub trait Tool: Send + Sync + std::fmt::Debug {
    fn description(&self) -> &ToolDescription;

    /// Whose it is, where there is no room for all.
    fn share(&self) -> Share<'_> {
        Share::BuiltIn
    }

    /// Who wrote its description and its input schema.
    fn description_author(&self) -> Author;

    /// Who writes the text of its results and errors. A trusted tool that reads text of others in a single call records
    /// that in [`ToolCallContext::untrusted`].
    fn output_author(&self) -> Author;

    /// What a call with this input does outside the agent's own data. `input` fits the schema.
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

    /// Runs once. `input` fits the schema.
    fn call(&self, input: Map<String, Value>, context: ToolCallContext)
    -> BoxFuture<'_, Result<ToolOutput, ToolError>>;
}

/// Where tools come from: those built in, custom ones, tool servers, devices, other domains.
pub trait ToolSource: Send + Sync {
    /// For logs.
    fn name(&self) -> &'static str;

    /// What is there for this agent now, in an order that stays the same. Asked before each turn,
    /// so it answers from memory.
    fn tools<'a>(&'a self, agent: &'a Agent) -> BoxFuture<'a, Vec<Arc<dyn Tool>>>;

    /// Whether a tool of this source has that name now, whichever agent is offered it.
    fn has_tool<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Names that are always this source's: no custom tool can take one of them.
    fn reserved_names(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_can_be_read_line_by_line() {
        let ran =
            ToolOutput::json(json!({"exit_code": 0, "stdout": "a \"b\"\nc\n", "stderr": "", "ended": "by itself"}));
        let text = ran.in_lines();
        assert!(text.contains("exit_code: 0\n") && text.ends_with("\nstdout:\na \"b\"\nc\n"), "{text}");
        assert_eq!(ToolOutput::text("a\nb").in_lines(), "a\nb");
        let nested = ToolOutput::json(json!({"rows": [{"a": "x\ny"}, {"a": 2}]})).in_lines();
        assert!(nested.lines().count() > 5 && serde_json::from_str::<Value>(&nested).is_ok(), "{nested}");
    }
}
