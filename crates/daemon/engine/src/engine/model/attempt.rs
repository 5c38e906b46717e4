//! One attempt at a call of a model, once it is over: what it used, how long it took and how it ended.

use agentd_base::Timestamp;
use agentd_base::trace::SpanId;
use agentd_llm::{FinishReason, ModelMessage, Usage, UsageSource};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::step::{Step, StepKind};

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The reply, or the tools that it needs.
    Answer,
    /// A plan before acting.
    Plan,
    /// A second look at an answer.
    Reflection,
    /// A summary of what was said before.
    Summary,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttemptEnd {
    Done,
    Failed {
        code: String,
        message: String,
    },
    /// Nobody waited for the rest of it.
    GivenUp,
    /// Its daemon ended.
    Interrupted,
}

/// What was said in an attempt; kept only for a collector that is to see it.
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
    /// `None`: nobody knows any more.
    pub(crate) began_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) end: AttemptEnd,
    pub(crate) finish: Option<FinishReason>,
    pub(crate) content: Option<Box<AttemptContent>>,
}

/// What is stored of an attempt beside its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredAttempt {
    pub(crate) purpose: Purpose,
    pub(crate) usage: Usage,
    pub(crate) cost_micro_usd: Option<u64>,
    pub(crate) end: AttemptEnd,
}

impl Attempt {
    /// One of which only the usage can be guessed, since its daemon is gone.
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

    /// As it is kept with the session.
    pub(crate) fn step(&self, cost_micro_usd: Option<u64>) -> Step {
        let stored = StoredAttempt { purpose: self.purpose, usage: self.usage, cost_micro_usd, end: self.end.clone() };
        Step {
            id: self.id.to_string(),
            kind: StepKind::ModelCall,
            started_at: self.began_at,
            ended_at: self.ended_at,
            // It has neither maps without text as keys nor anything else that could fail.
            data: serde_json::to_value(stored).unwrap_or(Value::Null),
        }
    }
}

/// Where the tokens of a call are known from.
pub(crate) fn source_name(source: UsageSource) -> &'static str {
    match source {
        UsageSource::Provider => "provider",
        UsageSource::Estimated => "estimated",
        UsageSource::Missing => "missing",
    }
}
