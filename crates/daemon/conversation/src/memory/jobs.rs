//! Jobs of memory and their results.

use serde::Serialize;

/// Totals of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    pub processed: u64,
    pub created: u64,
    pub merged: u64,
    pub skipped: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.processed += other.processed;
        self.created += other.created;
        self.merged += other.merged;
        self.skipped += other.skipped;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Processes new messages of conversations, and merges repeated episodes.
    Consolidate,
    /// Summarizes conversations.
    GenerateEpisodes,
    /// Extracts entities from episodes that were stored while extraction was off, or by an older tagger.
    BackfillEntities,
}

impl Job {
    pub(super) const ALL: [Self; 3] = [Self::Consolidate, Self::GenerateEpisodes, Self::BackfillEntities];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Consolidate => "consolidate_conversations",
            Self::GenerateEpisodes => "generate_episodes",
            Self::BackfillEntities => "backfill_entities",
        }
    }
}

/// State of a memory job: `idle` (no run is active), `running`, `interrupted` (the next run continues the last one), or
/// `waiting` (work is pending, but the embedding model is missing).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// No run is active.
    Idle,
    Running,
    /// The last run was interrupted and continues with the next one.
    Interrupted,
    /// Work is pending, but the embedding model is missing.
    Waiting,
}

/// State of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState {
    pub name: &'static str,
    pub status: JobStatus,
    /// Number of processed conversations or episodes, out of `total`.
    pub done: u64,
    pub total: u64,
    pub started_at: Option<agentd_base::Timestamp>,
    pub updated_at: Option<agentd_base::Timestamp>,
}
