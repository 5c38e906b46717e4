//! Runs code that nobody vouches for: what a model wrote, what a hook brings, a tool server from a
//! registry.
//!
//! A [`Sandbox`] puts each program into a box of the tier that is in force. A tier counts only when
//! a canary tried to get out of it on this machine and failed; without one, code is refused, unless
//! the owner chose [`Backend::None`] by hand.
//!
//! What holds in every box (tiers `bubblewrap` and `landlock`):
//! - Files: the system's programs and libraries, a few harmless parts of `/etc`, a private
//!   temporary directory, and the paths of the request and the policy. Nothing else can be read or
//!   written, the daemon's data least of all.
//! - Network: none. In the bubblewrap tier a request may bring the socket of a filtering proxy,
//!   which is then the only way out, and only where the policy allows the network.
//! - Rights: no capabilities, none to be gained, no dangerous system calls, no new namespaces, no
//!   signals to others, no terminal.
//! - Bounds: time, memory, processes, open files, file size, disk, number of files, what a workspace
//!   holds in all, output. Where the kernel has no
//!   bound for a whole tree of processes, the init inside counts several times a second, so a
//!   bound can be passed for that long. Memory is bounded by a control group of each run, where the
//!   daemon may make one; else by the count, which takes what the kernel holds for descriptors at
//!   its highest.
//! - End: when the program ends, is killed, or the daemon ends in any way, everything that it
//!   started ends too.
//!
//! As whom: a root daemon runs each program as a user of its own, and lends it the opened paths by
//! id-mapped mounts; root without the right to mount gets no sandbox, because the kernel does not
//! bound root's processes. Any other daemon, root of a container's user namespace included, runs
//! programs as its own user.
//!
//! Landlock without namespaces is the weaker tier: other processes can be seen to exist, as can files
//! that cannot be opened, with their sizes and times, if their names are known; `/tmp` may
//! be another directory (`TMPDIR` names it), and where the program has to share the daemon's user
//! it cannot change modes, owners or times of files by name.
//!
//! Paths that are opened must not lie in directories that other code can change while a run
//! starts: names are resolved when it starts, and Landlock and bubblewrap open them again.
//!
//! Deliberately absent: the filtering proxy, the choice of what to run, and the storage of the
//! policy.

mod capture;
mod child;
mod error;
pub mod folder;
mod host;
pub mod init;
mod plan;
mod policy;
mod request;
mod run;
mod sandbox;

pub use capture::Captured;
pub use child::SandboxedChild;
pub use error::SandboxError;
pub use host::evaluation::{Attempt, ControlGroups, Status};
pub use policy::{
    Backend, MAX_ENTRIES, MAX_MEMORY_MB, MAX_TIMEOUT_SECONDS, MIN_MEMORY_MB, Policy, Tier, WorkspaceBounds,
};
pub use request::{Ended, RunLimits, RunOutcome, RunRequest};
pub use sandbox::{Sandbox, SandboxSetup};
