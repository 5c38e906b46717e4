//! Steps of a turn that its log does not show: calls of the model, and recalls.

use agentd_base::Timestamp;
use agentd_base::trace::SpanId;
use serde_json::{Value, json};

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

/// One step, as it is stored with the session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// The id of its span.
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
