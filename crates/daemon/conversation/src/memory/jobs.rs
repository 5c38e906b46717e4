//! Long work: what it is called, what came of it.

use serde::Serialize;

/// What came of a job.
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
    /// Sums conversations up.
    GenerateEpisodes,
    /// Finds entities in episodes that were stored while that was off, or by older rules.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Nothing is being done.
    Idle,
    Running,
    /// It was left in the middle, and goes on there when it runs next.
    Interrupted,
    /// There is something to do, and what it needs is not there (the embedding model).
    Waiting,
}

/// Long work as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState {
    pub name: &'static str,
    pub status: JobStatus,
    /// Conversations or episodes that are done, of `total`.
    pub done: u64,
    pub total: u64,
    pub started_at: Option<agentd_base::Timestamp>,
    pub updated_at: Option<agentd_base::Timestamp>,
}
