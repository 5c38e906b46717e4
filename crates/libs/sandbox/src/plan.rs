//! Messages between the daemon and the init inside: the plan and the report. Both are sent over descriptors that the
//! program does not inherit, never as arguments, which every user of the machine can read.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Tier, WorkspaceBounds};

/// Description of one run for the init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) tier: Tier,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Complete environment of the program.
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) directory: PathBuf,
    /// Whether the program's user is exclusive to this run.
    pub(crate) own_user: bool,
    pub(crate) bounds: Bounds,
    /// Paths permitted by Landlock; empty if mounts already restrict visibility.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) writable: Vec<PathBuf>,
    /// Directories whose file systems are monitored for growth.
    pub(crate) watched: Vec<PathBuf>,
    /// One of the watched directories, with its limits.
    pub(crate) workspace: Option<(PathBuf, WorkspaceBounds)>,
    /// In-memory file systems, which count as memory.
    pub(crate) memory_backed: Vec<PathBuf>,
    /// Control group of the program; without one, the init also counts kernel memory.
    pub(crate) group: Option<GroupDescriptors>,
    /// Maximum buffer size of one socket.
    pub(crate) socket_bytes: u64,
    /// Path of the proxy's socket inside the sandbox.
    pub(crate) proxy_socket: Option<PathBuf>,
    /// Set if this run only tests its tier.
    pub(crate) probe: Option<Probe>,
    /// Descriptor to which the init writes its [`Report`].
    pub(crate) report_descriptor: i32,
    /// Descriptor that reads as closed once the daemon has ended or stops the run.
    pub(crate) control_descriptor: i32,
}

/// Resource limits of a run. Every limit applies to the whole process tree unless stated otherwise.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Bounds {
    pub(crate) memory_bytes: u64,
    /// Maximum number of processes and threads.
    pub(crate) processes: u64,
    /// Maximum number of open files per process.
    pub(crate) open_files: u64,
    /// Maximum size per file.
    pub(crate) file_bytes: u64,
    /// Maximum growth of the file systems of the writable paths.
    pub(crate) disk_bytes: u64,
    /// Maximum number of files created there.
    pub(crate) files: u64,
}

/// Memory cost of an entry of an in-memory file system.
pub(crate) const ENTRY_BYTES: u64 = 1024;

/// Control group, opened by the daemon, since its files are inaccessible inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GroupDescriptors {
    /// Writing `0` to each of them joins the group.
    pub(crate) entrances: Vec<i32>,
    /// Reports the number of processes that the kernel killed for lack of memory.
    pub(crate) events: i32,
    /// Set if the kernel counts TCP buffers separately.
    pub(crate) tcp: Option<i32>,
}

/// Targets that a canary tries to reach from inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Probe {
    /// Readable and writable for everyone, according to its mode.
    pub(crate) outside_file: PathBuf,
    pub(crate) outside_directory: PathBuf,
    /// Must remain writable; otherwise the tier is useless.
    pub(crate) inside_directory: PathBuf,
    /// Port on the loopback address on which the daemon listens.
    pub(crate) tcp_port: u16,
    /// Abstract socket on which the daemon listens.
    pub(crate) abstract_socket: String,
    pub(crate) daemon_process: u32,
}

/// Result of a run, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    NotStarted { reason: String },
    Exited { code: i32 },
    Signaled { signal: i32 },
    MemoryLimit { limit: u64 },
    ProcessLimit,
    DiskLimit,
    FileLimit,
    WorkspaceBytes { limit: u64 },
    WorkspaceFiles { limit: u64 },
    DiskShort,
    Stopped,
}
