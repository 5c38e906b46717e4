//! Execution of untrusted code, such as code written by a model, hook programs, or tool servers from a registry.
//!
//! A [`Sandbox`] runs each program in the active tier. A tier is only used if a canary failed to escape from it on this
//! machine; without one, code is refused, unless the owner explicitly chose [`Backend::None`].
//!
//! Guarantees of the tiers `bubblewrap` and `landlock`:
//! - Files: the system's programs and libraries, a few harmless parts of `/etc`, a private temporary directory, and the
//!   paths of the request and the policy. Nothing else can be read or written, in particular not the daemon's data.
//! - Network: none. In the bubblewrap tier a request may provide the socket of a filtering proxy, which is then the
//!   only connection, and only if the policy allows the network.
//! - Privileges: no capabilities and no way to gain them, no dangerous system calls, no new namespaces, no signals to
//!   other processes, no terminal.
//! - Limits: time, memory, processes, open files, file size, disk, number of files, size of a workspace, output. If the
//!   kernel has no limit for a process tree, the init inside measures several times per second, so a limit can be
//!   exceeded for that long. Memory is limited by a control group for each run, if the daemon may create one; otherwise
//!   by counting, with kernel memory of descriptors at its maximum.
//! - Termination: when the program ends, is killed, or the daemon ends in any way, everything that it started ends too.
//!
//! Users: a daemon running as root runs each program as a separate user and maps the opened paths with id-mapped
//! mounts. Root without the right to mount gets no sandbox, because the kernel does not limit root's processes. Any
//! other daemon, including root of a container's user namespace, runs programs as its own user.
//!
//! Landlock without namespaces is the weaker tier. The existence of other processes is visible, as are inaccessible
//! files, with their sizes and times, if their names are known. `/tmp` may be another directory (`TMPDIR` names it). If
//! the program shares the daemon's user, it cannot change modes, owners or times of files by name.
//!
//! Opened paths must not be in directories that other code can change while a run starts: names are resolved at the
//! start, and Landlock and bubblewrap resolve them again.
//!
//! Out of scope: the filtering proxy, the choice of programs, and storage of the policy.

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
