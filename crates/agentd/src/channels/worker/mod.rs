//! What channels do in the background.

mod approvals;
mod connect;
mod progress;
mod purge;
mod start;

pub(super) use approvals::RequestApprovals;
pub(super) use connect::KeepConnections;
pub(super) use progress::ReportProgress;
pub(super) use purge::PurgeMessages;
pub(super) use start::StartTurns;
