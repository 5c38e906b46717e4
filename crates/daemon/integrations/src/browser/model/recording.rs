//! Stored recordings of actions.

use agentd_base::{Timestamp, typed_id};
use agentd_browser::RecordedStep;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

typed_id!(
    /// Id of a recording: `rec_` and a time-ordered part.
    RecordingId,
    "rec"
);

/// Maximum number of stored recordings.
pub(crate) const MAX_RECORDINGS: usize = 200;
/// Maximum number of steps of a recording.
pub(super) const MAX_STEPS: u32 = 1_000;
/// Maximum total size of the files of a recording.
pub(super) const MAX_BYTES: u64 = 100 << 20;

/// State of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingState {
    /// Actions are being added.
    Running,
    Complete,
    /// Ended early: a limit was reached or the disk was full. Later actions are missing.
    Cut,
    /// The daemon stopped during the recording.
    Interrupted,
}

/// First line of a recording's file.
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

/// Further line of the file: a step, and whether there is a picture of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredStep {
    #[serde(flatten)]
    pub step: RecordedStep,
    pub has_picture: bool,
}

/// Recording without its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingSummary {
    #[serde(flatten)]
    pub header: RecordingHeader,
    pub state: RecordingState,
    pub duration_ms: u64,
    pub action_count: u32,
    /// Total size of its files.
    pub size_bytes: u64,
    /// Numbers of the secrets that a replay requires.
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

    /// Adds a step to the totals.
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
