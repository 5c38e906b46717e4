//! Recordings of actions, as they are kept.

use agentd_base::{Timestamp, typed_id};
use agentd_browser::RecordedStep;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

typed_id!(
    /// `rec_` and a time-ordered id.
    RecordingId,
    "rec"
);

/// Further recordings are refused.
pub(crate) const MAX_RECORDINGS: usize = 200;
/// A recording ends with this step.
pub(super) const MAX_STEPS: u32 = 1_000;
/// Or when its files have grown to this.
pub(super) const MAX_BYTES: u64 = 100 << 20;

/// How a recording is, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingState {
    /// Actions are added to it.
    Running,
    Complete,
    /// It reached its bounds, or the disk was full: what was done after that is not in it.
    Cut,
    /// The daemon was ended meanwhile.
    Interrupted,
}

/// The first line of a recording's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingHeader {
    pub format: u32,
    pub recording_id: RecordingId,
    pub name: String,
    pub started_at: Timestamp,
}

impl RecordingHeader {
    pub const FORMAT: u32 = 1;
}

/// A further line: a step, and whether there is a picture beside the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptStep {
    #[serde(flatten)]
    pub step: RecordedStep,
    pub has_picture: bool,
}

/// A recording without its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingSummary {
    #[serde(flatten)]
    pub header: RecordingHeader,
    pub state: RecordingState,
    pub duration_ms: u64,
    pub action_count: u32,
    /// Of all its files.
    pub size_bytes: u64,
    /// The numbers of the secrets that a replay asks for.
    pub secrets: Vec<u32>,
}

impl RecordingSummary {
    #[must_use]
    pub fn new(header: RecordingHeader) -> Self {
        Self {
            header,
            state: RecordingState::Running,
            duration_ms: 0,
            action_count: 0,
            size_bytes: 0,
            secrets: Vec::new(),
        }
    }

    /// Counts a step in.
    pub fn add(&mut self, step: &RecordedStep, size_bytes: u64) {
        self.action_count += 1;
        self.size_bytes += size_bytes;
        self.duration_ms = self.duration_ms.max(step.at_ms + step.duration_ms);
        for number in step.secrets() {
            if let Err(at) = self.secrets.binary_search(&number) {
                self.secrets.insert(at, number);
            }
        }
    }

    #[must_use]
    pub fn is_full(&self) -> bool {
        self.action_count >= MAX_STEPS || self.size_bytes >= MAX_BYTES
    }
}
