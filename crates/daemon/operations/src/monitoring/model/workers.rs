//! Background workers.

use agentd_base::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// Background workers of one daemon.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkerList {
    /// Workers, ordered by name.
    pub workers: Vec<WorkerView>,
}

/// Background worker and its activity since the daemon started.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkerView {
    /// Name, unique among workers.
    pub name: &'static str,
    /// Task of the worker, in one sentence.
    pub description: &'static str,
    /// Maximum time between two passes while there is work, in seconds.
    pub interval_seconds: f64,
    /// Whether a pass takes much longer than expected.
    pub is_late: bool,
    /// Number of items claimed, written or deleted.
    pub items: u64,
    /// Number of failed passes.
    pub failures: u64,
    /// Number of failed passes since the last success.
    pub failures_in_a_row: u64,
    /// Time of the last successful pass; `null` before the first one.
    #[schema(required)]
    pub last_success_at: Option<Timestamp>,
    /// Data that the worker deletes after some time.
    pub retention: Vec<RetentionView>,
}

/// Data that is deleted after some time.
#[derive(Debug, Serialize, ToSchema)]
pub struct RetentionView {
    /// Description of the data.
    pub what: &'static str,
    /// Retention time in seconds.
    pub kept_seconds: u64,
}
