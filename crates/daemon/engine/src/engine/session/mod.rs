//! Sessions: their log, who follows it, how it is written down, and what becomes of those whose daemon is gone.

pub(super) mod follow;
pub(super) mod log;
pub(super) mod recovery;
mod settle;
pub(super) mod task_events;
pub(super) mod trace;
