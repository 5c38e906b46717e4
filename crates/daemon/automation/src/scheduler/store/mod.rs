//! Rows of jobs, runs and chains.

pub(super) mod calendar;
pub(super) mod chains;
pub(super) mod claims;
pub(super) mod jobs;
pub(super) mod runs;
pub(super) mod statistics;
