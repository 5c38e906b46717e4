//! What the daemon tells the init inside, and what the init reports. Both travel over descriptors
//! that the confined program never gets, never over arguments, which every user of a machine can
//! read.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Tier, WorkspaceBounds};

/// One run, as the init sees it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) tier: Tier,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// The program's whole environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) directory: PathBuf,
    /// Nothing but this run has the user of the program, or counts as that user.
    pub(crate) own_user: bool,
    pub(crate) bounds: Bounds,
    /// What Landlock opens; empty where mounts already decide what is visible.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) writable: Vec<PathBuf>,
    /// Directories whose file systems are watched for growth.
    pub(crate) watched: Vec<PathBuf>,
    /// One of them, and what it may hold.
    pub(crate) workspace: Option<(PathBuf, WorkspaceBounds)>,
    /// File systems in memory that count as memory.
    pub(crate) memory_backed: Vec<PathBuf>,
    /// The control group of the program; without one the init counts what the kernel holds as well.
    pub(crate) group: Option<GroupDescriptors>,
    /// What one socket keeps at most.
    pub(crate) socket_bytes: u64,
    /// The socket of the proxy, as it is called inside.
    pub(crate) proxy_socket: Option<PathBuf>,
    /// Present when this run only proves that its tier holds.
    pub(crate) probe: Option<Probe>,
    /// Where the init writes its [`Report`].
    pub(crate) report_descriptor: i32,
    /// Reads as ended when the daemon is gone or wants the run to end.
    pub(crate) control_descriptor: i32,
}

/// What a run may use. Every bound holds for the whole tree of processes unless it says otherwise.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Bounds {
    pub(crate) memory_bytes: u64,
    /// Processes and threads.
    pub(crate) processes: u64,
    /// In each process.
    pub(crate) open_files: u64,
    /// Of each file.
    pub(crate) file_bytes: u64,
    /// By which the file systems of the writable paths may fill up.
    pub(crate) disk_bytes: u64,
    /// Files that may be made there.
    pub(crate) files: u64,
}

/// What a file in memory costs by being there.
pub(crate) const ENTRY_BYTES: u64 = 1024;

/// A control group, opened by the daemon: inside, its files are out of reach.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GroupDescriptors {
    /// Whoever writes `0` to each is in the group.
    pub(crate) entrances: Vec<i32>,
    /// Says how many processes the kernel ended for want of memory.
    pub(crate) events: i32,
    /// Where the kernel counts buffers of TCP by themselves.
    pub(crate) tcp: Option<i32>,
}

/// What a canary tries to reach from inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Probe {
    /// Readable and writable for everyone as far as its own mode says.
    pub(crate) outside_file: PathBuf,
    pub(crate) outside_directory: PathBuf,
    /// Must stay writable, or the tier is useless.
    pub(crate) inside_directory: PathBuf,
    /// The daemon listens there on the loopback address.
    pub(crate) tcp_port: u16,
    /// The daemon listens on this abstract socket too.
    pub(crate) abstract_socket: String,
    pub(crate) daemon_process: u32,
}

/// How it went, in one line of JSON.
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
