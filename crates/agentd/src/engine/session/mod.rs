//! Sessions.

pub(super) mod log;
pub(super) mod task_events;
