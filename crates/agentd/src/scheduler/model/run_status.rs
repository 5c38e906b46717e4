//! States of a run.

use super::named;

named!(RunStatus {
    /// Waits for its time, its permit, or its next attempt.
    Pending = "pending",
    Running = "running",
    Success = "success",
    Failed = "failed",
    Cancelled = "cancelled",
    /// It was left out; `error` says why.
    Skipped = "skipped",
    /// Its last attempt took longer than it may.
    Timeout = "timeout",
});

impl RunStatus {
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}
