//! What is asked of the model inside, what it answers, and its state.

use std::path::PathBuf;
use std::sync::Arc;

use agentd_base::{DomainError, ErrorKind};
use serde::{Deserialize, Serialize};

/// One reply to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// Who asks: clients that wait take turns. Not for the process, which works for one daemon.
    #[serde(skip)]
    pub client: Arc<str>,
    /// A GGUF file.
    pub model_path: PathBuf,
    /// The system prompt. Empty is taken as the shortest useful one, because the prompt that many
    /// model files put in by default makes small models ramble.
    pub system: String,
    /// The conversation, oldest first; the last one is what is answered.
    pub messages: Vec<ChatMessage>,
    /// 0 always takes the likeliest token.
    pub temperature: f32,
    /// `None`: as many as the context window leaves room for.
    pub max_output_tokens: Option<u32>,
    /// The same seed, request and model give the same reply. `None`: another one each time.
    pub seed: Option<u32>,
    /// Texts that end the reply; they are never part of it.
    pub stop: Vec<String>,
    /// Tools offered to the model. Ignored for a model whose chat template has no tools.
    pub tools: Vec<ToolDefinition>,
}

impl GenerateRequest {
    /// A request with the usual settings. The temperature is low: small models lose the thread at higher ones.
    #[must_use]
    pub fn new(model_path: impl Into<PathBuf>, system: impl Into<String>, messages: Vec<ChatMessage>) -> Self {
        Self {
            client: Arc::default(),
            model_path: model_path.into(),
            system: system.into(),
            messages,
            temperature: 0.3,
            max_output_tokens: None,
            seed: None,
            stop: Vec::new(),
            tools: Vec::new(),
        }
    }
}

/// A tool as it is offered to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// A JSON Schema of type `object`.
    pub input_schema: serde_json::Value,
}

/// A call as the model writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    pub name: String,
    /// What the tool's schema describes, if the model kept to it; not checked here.
    pub arguments: serde_json::Value,
}

/// A call in a conversation, with what its answer refers to it by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the conversation.
    pub id: String,
    pub function: FunctionCall,
}

/// The call that a message of a tool answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredCall {
    pub id: String,
    pub name: String,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    pub role: ChatRole,
    pub content: String,
    /// Of an assistant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnsweredCall>,
}

impl ChatMessage {
    #[must_use]
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(ChatRole::User, content)
    }

    #[must_use]
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(ChatRole::Assistant, content)
    }

    /// What the call `id` of the tool `name` answered.
    #[must_use]
    pub fn tool(id: impl Into<String>, name: impl Into<String>, content: impl Into<String>) -> Self {
        let answers = Some(AnsweredCall { id: id.into(), name: name.into() });
        Self { answers, ..Self::new(ChatRole::Tool, content) }
    }

    #[must_use]
    pub fn with_calls(self, tool_calls: Vec<ToolCall>) -> Self {
        Self { tool_calls, ..self }
    }

    fn new(role: ChatRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: Vec::new(), answers: None }
    }
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatRole {
    System,
    User,
    Assistant,
    /// A tool that was called.
    Tool,
}

/// What a reply's stream carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalEvent {
    /// More text, as the model makes it. Never empty, never half a character.
    Text(String),
    /// The end. Nothing follows.
    Finished {
        reason: FinishReason,
        input_tokens: u32,
        output_tokens: u32,
        /// The calls that the model makes, in its order.
        calls: Vec<FunctionCall>,
    },
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model was done, or a stop text came.
    Stop,
    /// `max_output_tokens` or the context window was used up.
    Length,
    /// Nobody wanted it any more.
    Cancelled,
}

/// Whether there is a model in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalState {
    /// No process, no memory; the next request starts one.
    Unloaded,
    Loading,
    Ready,
    /// The last attempt failed; `last_error` says why. The next request tries again.
    Failed,
}

/// What can be told of the model inside.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LocalStatus {
    pub state: LocalState,
    /// The file that is loaded, or was asked for last.
    pub model: Option<PathBuf>,
    /// Memory of the inference process, files it has mapped included; 0 without one.
    pub resident_bytes: u64,
    pub process_id: Option<u32>,
    /// Of the last calls, recent ones counting more; `None` before the first.
    pub prompt_tokens_per_second: Option<f64>,
    pub generation_tokens_per_second: Option<f64>,
    /// Of the loaded model, as far as it is used.
    pub context_length: Option<u32>,
    pub last_error: Option<String>,
    /// Requests that run or wait.
    pub active_requests: usize,
}

impl Default for LocalStatus {
    fn default() -> Self {
        Self {
            state: LocalState::Unloaded,
            model: None,
            resident_bytes: 0,
            process_id: None,
            prompt_tokens_per_second: None,
            generation_tokens_per_second: None,
            context_length: None,
            last_error: None,
            active_requests: 0,
        }
    }
}

/// What kind of failure it was, for callers that act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalErrorCode {
    /// Too many requests wait already.
    Overloaded,
    /// The prompt does not fit into the context window.
    ContextLength,
    /// The inference process is not there: it ended, hung, or was shut down.
    Unavailable,
    /// The engine failed on this request.
    Internal,
    /// There is no such file, or it is not a model that the engine can read.
    ModelMissing,
    /// The processor lacks instructions that the engine was built with.
    UnsupportedCpu,
    /// The request itself cannot be served (no messages, a schema that is none).
    Invalid,
}

impl LocalErrorCode {
    /// Stable, `snake_case`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overloaded => "overloaded",
            Self::ContextLength => "context_length",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
            Self::ModelMissing => "model_missing",
            Self::UnsupportedCpu => "unsupported_cpu",
            Self::Invalid => "invalid",
        }
    }
}

/// Why there is no reply, or no whole one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LocalError {
    pub code: LocalErrorCode,
    /// A sentence for people.
    pub message: String,
}

impl LocalError {
    #[must_use]
    pub fn new(code: LocalErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(LocalErrorCode::Unavailable, "the daemon is shutting down")
    }
}

impl DomainError for LocalError {
    fn kind(&self) -> ErrorKind {
        match self.code {
            LocalErrorCode::Overloaded | LocalErrorCode::Unavailable => ErrorKind::Unavailable,
            LocalErrorCode::ModelMissing | LocalErrorCode::UnsupportedCpu => ErrorKind::Unavailable,
            LocalErrorCode::ContextLength | LocalErrorCode::Invalid => ErrorKind::Invalid(Vec::new()),
            LocalErrorCode::Internal => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        self.code.as_str()
    }
}
