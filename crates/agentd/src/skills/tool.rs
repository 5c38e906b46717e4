//! What a tool is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::schema::InputSchema;
use crate::agents::Agent;

/// What a tool does to the world; decides whether its owner is asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Looks at what is the agent's own already: its workspace, its memory, the clock.
    Reads,
    /// Changes something, runs code, or reaches outside.
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
}

/// What a tool answers: a JSON object. A model reads `text` alone where there is nothing else.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    pub value: Map<String, Value>,
}

impl ToolOutput {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { value: Map::from_iter([("text".to_owned(), Value::String(text.into()))]) }
    }

    /// Anything that serializes to an object; other JSON becomes `{"result": …}`.
    #[must_use]
    pub fn json(value: Value) -> Self {
        match value {
            Value::Object(value) => Self { value },
            other => Self { value: Map::from_iter([("result".to_owned(), other)]) },
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

/// One thing that an agent can do. Calls run side by side.
pub trait Tool: Send + Sync + std::fmt::Debug {
    fn description(&self) -> &ToolDescription;

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

    /// Names that are always this source's: no custom tool can take one of them.
    fn reserved_names(&self) -> Vec<String> {
        Vec::new()
    }
}
