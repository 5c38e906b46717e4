//! What is to be run, and how it ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Captured, Policy, SandboxError, WorkspaceBounds};

/// What one run may use. The policy can only lower time and memory further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// `None`: as long as the policy allows. Ignored by [`crate::Sandbox::spawn`].
    pub time: Option<Duration>,
    /// Of all processes together, files in memory included. `None`: as much as the policy allows.
    pub memory_bytes: Option<u64>,
    /// Processes and threads at the same time.
    pub processes: u32,
    /// Open files of each process.
    pub open_files: u32,
    /// Size of each file.
    pub file_bytes: u64,
    /// Output that is read before the run is ended.
    pub output_bytes: u64,
    /// Output that is kept of each stream: half of it from the start, half from the end.
    pub kept_bytes: usize,
    /// By how much the disks under the writable paths may fill up, and the size of `/tmp`.
    pub disk_bytes: u64,
    /// How many files may be made under the writable paths.
    pub files: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            time: None,
            memory_bytes: None,
            processes: 128,
            open_files: 1024,
            file_bytes: 1 << 30,
            output_bytes: 16 << 20,
            kept_bytes: 256 << 10,
            disk_bytes: 1 << 30,
            files: 250_000,
        }
    }
}

/// A program to be run in the box. The program sees its paths under the same names as the daemon.
#[derive(Debug, Clone, Default)]
pub struct RunRequest {
    /// An absolute path, or a name that is looked for in `/usr/local/bin`, `/usr/bin` and `/bin`.
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Beside what the policy hands on and what the box itself sets (`PATH`, `HOME`, `TMPDIR`, the
    /// variables of the proxy); wins over all of them but the proxy's.
    pub environment: Vec<(OsString, OsString)>,
    /// Must lie in a readable or writable path. `None`: a temporary directory.
    pub working_directory: Option<PathBuf>,
    /// Written to the program's standard input, which then ends. Ignored by [`crate::Sandbox::spawn`].
    pub stdin: Vec<u8>,
    /// Files and directories that can be read, beside the system's programs and libraries.
    pub readable_paths: Vec<PathBuf>,
    /// Directories that can be read and changed.
    pub writable_paths: Vec<PathBuf>,
    /// That of them which the policy's bounds on a workspace hold for. One that holds more when the
    /// run starts must not grow, so that code can still clear it up.
    pub workspace: Option<PathBuf>,
    /// The socket of a filtering proxy. Only a run that names one, under a policy that allows the
    /// network, reaches anything, and everything it reaches goes through that proxy.
    pub proxy_socket: Option<PathBuf>,
    /// The owner allowed the network to this very program, whatever the policy says of others.
    pub network_allowed: bool,
    pub limits: RunLimits,
}

impl RunRequest {
    /// A program with its arguments, and nothing else.
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, arguments: impl IntoIterator<Item = A>) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

impl RunRequest {
    /// The workspace as it is called inside, and what it may hold.
    pub(crate) fn bounded_workspace(
        &self,
        policy: &Policy,
    ) -> Result<Option<(PathBuf, WorkspaceBounds)>, SandboxError> {
        let Some(path) = &self.workspace else { return Ok(None) };
        let path = path.canonicalize().map_err(|source| SandboxError::Path { path: path.clone(), source })?;
        Ok(Some((path, policy.workspace_bounds())))
    }
}

/// Why a run is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Ended {
    Exited {
        code: i32,
    },
    Signaled {
        signal: i32,
    },
    /// The program could not be started: it is not there, or not executable.
    NotStarted {
        reason: String,
    },
    TimeLimit,
    /// With what the kernel kept for it.
    MemoryLimit {
        limit: u64,
    },
    ProcessLimit,
    DiskLimit,
    FileLimit,
    /// The workspace holds more bytes than it may, or did when the run started and has grown.
    WorkspaceBytes {
        limit: u64,
    },
    /// The same of files.
    WorkspaceFiles {
        limit: u64,
    },
    /// The last of the disk is not for code.
    DiskShort,
    OutputLimit,
    /// It was killed from outside.
    Stopped,
}

impl Ended {
    /// Whether the program ended by itself with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Exited { code: 0 })
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "ended with code {code}"),
            Self::Signaled { signal } => write!(f, "was ended by signal {signal}"),
            Self::NotStarted { reason } => write!(f, "could not be started: {reason}"),
            Self::TimeLimit => f.write_str("was ended at its time limit"),
            Self::MemoryLimit { limit } => write!(
                f,
                "was ended because it used more memory than the {} MB that it may (`memory_limit_mb`)",
                limit >> 20
            ),
            Self::ProcessLimit => f.write_str("was ended because it started more processes than it may"),
            Self::DiskLimit => f.write_str("was ended because it filled more of the disk than it may"),
            Self::FileLimit => f.write_str("was ended because it made more files than it may"),
            Self::WorkspaceBytes { limit } => write!(
                f,
                "was ended because its workspace would hold more than {} MB (`workspace_limit_mb`); remove files before you make others",
                limit >> 20
            ),
            Self::WorkspaceFiles { limit } => write!(
                f,
                "was ended because its workspace would hold more than {limit} files and folders (`workspace_max_files`); remove some before you make others"
            ),
            Self::DiskShort => f.write_str(
                "was ended because the last of the disk is kept for the daemon; make room there before you write more",
            ),
            Self::OutputLimit => f.write_str("was ended because it wrote more output than it may"),
            Self::Stopped => f.write_str("was stopped"),
        }
    }
}

/// What a run left.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    pub ended: Ended,
    pub stdout: Captured,
    pub stderr: Captured,
    /// From the start of the box to the end of everything in it.
    pub duration: Duration,
    pub tier: crate::Tier,
}
