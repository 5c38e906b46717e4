//! Common supervision of all inference processes: start, restart after a delay, termination when hung or idle, and
//! diagnosis of failures.
//!
//! Out of scope: requests and their responses, which each kind of process handles in its own supervisor.

mod keeper;
mod process;

pub(crate) use keeper::{Keeper, KeeperOptions, ProcessEvent};
pub(crate) use process::resident_bytes;
