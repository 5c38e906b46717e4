//! The tools of a turn: how they run, and what they answer.

pub(super) mod cut;
pub(super) mod run;
