//! Child processes, all started by one thread.
//!
//! A child asks the kernel to be killed when its parent ends, but for the kernel the parent is the thread that started
//! it, not the process. Therefore a single thread starts all children and runs as long as a [`Spawner`] or a [`Child`]
//! exists; it also reaps them.
//!
//! Invariants of every child: it has its own process group; it dies with the daemon; it sees only its three standard
//! descriptors, explicitly inherited ones, and the given environment. When the leader of the group ends, the rest of
//! the group is killed, and no zombie remains. A dropped [`Child`] is killed with its group.
//!
//! Out of scope: sandboxing, restarts and time limits, which are left to the caller.

mod before_exec;
mod child;
mod exit;
mod request;
mod spawner;
mod thread;

pub use before_exec::BeforeExec;
pub use child::Child;
pub use exit::ExitOutcome;
pub use request::{SpawnRequest, Stream};
pub use spawner::{SpawnError, Spawner};

#[cfg(test)]
mod tests;
