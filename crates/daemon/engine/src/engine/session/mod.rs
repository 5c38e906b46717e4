//! Sessions: their log, followers, results, and recovery after a crash.

pub(super) mod follow;
pub(super) mod log;
pub(super) mod recovery;
pub(super) mod settle;
pub(super) mod trace;
