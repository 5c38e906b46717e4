//! Child processes, all started by one thread.
//!
//! A child asks the kernel to be killed when its parent ends, and the kernel means the thread that
//! started it, not the process. So one thread starts all children and stays for as long as there is
//! a [`Spawner`] or a [`Child`]; it also reaps them.
//!
//! Invariants of every child: its own process group; dies with the daemon; sees no descriptor but
//! its three standard ones and those that were named; sees no environment but what was named. When the leader of the group
//! ends, the rest of the group is killed, and nothing is left as a zombie. A dropped [`Child`] is
//! killed with its group.
//!
//! Deliberately absent: sandboxing, restarts, and time limits. Those belong to who starts the child.

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
