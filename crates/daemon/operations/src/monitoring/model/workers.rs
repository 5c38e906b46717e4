//! Background workers.

use agentd_base::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// Background workers of one daemon.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkerList {
    pub workers: Vec<WorkerView>,
}

/// Background worker and its activity since the daemon started.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkerView {
    pub name: &'static str,
    pub description: &'static str,
    /// Maximum time between two passes while there is work.
    pub interval_seconds: f64,
    /// Whether a pass takes much longer than expected.
    pub is_late: bool,
    /// Items handled: claimed, written or deleted.
    pub items: u64,
    pub failures: u64,
    /// Failures since the last success.
    pub failures_in_a_row: u64,
    #[schema(required)]
    pub last_success_at: Option<Timestamp>,
    /// Data that the worker deletes after some time.
    pub retention: Vec<RetentionView>,
}

/// Data that is deleted after some time.
#[derive(Debug, Serialize, ToSchema)]
pub struct RetentionView {
    pub what: &'static str,
    pub kept_seconds: u64,
}
