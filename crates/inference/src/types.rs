//! What is asked of the model inside, and what it answers.

use std::path::PathBuf;

use agentd_base::{DomainError, ErrorKind};
use serde::{Deserialize, Serialize};

/// One reply to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateRequest {
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
    /// A JSON schema that the whole reply must satisfy.
    pub grammar_schema: Option<serde_json::Value>,
    /// Texts that end the reply; they are never part of it.
    pub stop: Vec<String>,
}

impl GenerateRequest {
    /// A request with the usual settings. The temperature is low: small models lose the thread at higher ones.
    #[must_use]
    pub fn new(model_path: impl Into<PathBuf>, system: impl Into<String>, messages: Vec<ChatMessage>) -> Self {
        Self {
            model_path: model_path.into(),
            system: system.into(),
            messages,
            temperature: 0.3,
            max_output_tokens: None,
            seed: None,
            grammar_schema: None,
            stop: Vec::new(),
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    pub role: ChatRole,
    pub content: String,
}

impl ChatMessage {
    #[must_use]
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: ChatRole::User, content: content.into() }
    }

    #[must_use]
    pub fn assistant(content: impl Into<String>) -> Self {
        Self { role: ChatRole::Assistant, content: content.into() }
    }
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatRole {
    System,
    User,
    Assistant,
}

/// What a reply's stream carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalEvent {
    /// More text, as the model makes it. Never empty, never half a character.
    Text(String),
    /// The end. Nothing follows.
    Finished { reason: FinishReason, input_tokens: u32, output_tokens: u32 },
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
