//! The tools of a turn: what they answer.

pub(super) mod cut;
