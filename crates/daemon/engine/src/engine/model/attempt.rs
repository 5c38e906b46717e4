//! Attempts: calls of a model with their usage, and the steps of a turn that its event log does not contain.

use agentd_base::Timestamp;
use agentd_base::trace::SpanId;
use agentd_llm::{FinishReason, ModelMessage, Usage, UsageSource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Purpose of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The reply, including the tool calls it needs.
    Answer,
    /// A plan before acting.
    Plan,
    /// A review of an answer.
    Reflection,
    /// A summary of earlier messages.
    Summary,
}

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttemptEnd {
    Done,
    Failed {
        code: String,
        message: String,
    },
    /// The caller stopped reading.
    Abandoned,
    /// The daemon stopped.
    Interrupted,
}

/// Prompt and answer of an attempt; recorded only if traces include content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttemptContent {
    pub(crate) system: String,
    pub(crate) messages: Vec<ModelMessage>,
    pub(crate) answer: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attempt {
    pub(crate) id: SpanId,
    pub(crate) purpose: Purpose,
    pub(crate) usage: Usage,
    /// `None` if unknown.
    pub(crate) began_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) end: AttemptEnd,
    pub(crate) finish: Option<FinishReason>,
    pub(crate) content: Option<Box<AttemptContent>>,
}

/// Stored data of an attempt, besides its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredAttempt {
    pub(crate) purpose: Purpose,
    pub(crate) usage: Usage,
    pub(crate) cost_micro_usd: Option<u64>,
    pub(crate) end: AttemptEnd,
}

impl Attempt {
    /// Builds an attempt of a stopped daemon, of which only the usage can be estimated.
    pub(crate) fn interrupted(id: SpanId, usage: Usage) -> Self {
        Self {
            id,
            purpose: Purpose::Answer,
            usage,
            began_at: None,
            ended_at: None,
            end: AttemptEnd::Interrupted,
            finish: None,
            content: None,
        }
    }

    /// Converts the attempt to a step of its session.
    pub(crate) fn step(&self, cost_micro_usd: Option<u64>) -> Step {
        let stored = StoredAttempt { purpose: self.purpose, usage: self.usage, cost_micro_usd, end: self.end.clone() };
        Step {
            id: self.id.to_string(),
            kind: StepKind::ModelCall,
            started_at: self.began_at,
            ended_at: self.ended_at,
            // All map keys are strings, so serialization cannot fail.
            data: serde_json::to_value(stored).unwrap_or(Value::Null),
        }
    }
}

/// Name of a usage source in the public API.
pub(crate) fn source_name(source: UsageSource) -> &'static str {
    match source {
        UsageSource::Provider => "provider",
        UsageSource::Estimated => "estimated",
        UsageSource::Missing => "missing",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepKind {
    Recall,
    ModelCall,
}

impl StepKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Recall => "recall",
            Self::ModelCall => "model_call",
        }
    }
}

/// A step, as stored with the session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// Id of its span.
    pub(crate) id: String,
    pub(crate) kind: StepKind,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) data: Value,
}

impl Step {
    pub(crate) fn recall(id: SpanId, (started_at, ended_at): (Timestamp, Timestamp), memories: &[String]) -> Self {
        Self {
            id: id.to_string(),
            kind: StepKind::Recall,
            started_at: Some(started_at),
            ended_at: Some(ended_at),
            data: json!({ "memories": memories.len(), "episode_ids": memories }),
        }
    }
}
