//! Request of a run, and its outcome.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Captured, Policy, SandboxError, WorkspaceBounds};

/// Resource limits of one run. The policy can only lower time and memory further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// Time limit; `None` uses the policy's. Ignored by [`crate::Sandbox::spawn`].
    pub time: Option<Duration>,
    /// Memory of all processes together, including files in memory; `None` uses the policy's limit.
    pub memory_bytes: Option<u64>,
    /// Maximum number of concurrent processes and threads.
    pub processes: u32,
    /// Maximum number of open files per process.
    pub open_files: u32,
    /// Maximum size per file.
    pub file_bytes: u64,
    /// Maximum size of the output, after which the run is ended.
    pub output_bytes: u64,
    /// Size of the retained output per stream: half from the start, half from the end.
    pub kept_bytes: usize,
    /// Maximum growth of the disks under the writable paths, and the size of `/tmp`.
    pub disk_bytes: u64,
    /// Maximum number of files created under the writable paths.
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

/// Program to run in the sandbox. It sees its paths under the same names as the daemon.
#[derive(Debug, Clone, Default)]
pub struct RunRequest {
    /// Absolute path, or a name that is searched in `/usr/local/bin`, `/usr/bin` and `/bin`.
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Environment in addition to the variables inherited by policy and those of the sandbox (`PATH`, `HOME`, `TMPDIR`,
    /// the proxy variables). Overrides all of them except for the proxy variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Must be in a readable or writable path; `None` uses a temporary directory.
    pub working_directory: Option<PathBuf>,
    /// Content of the program's standard input. Ignored by [`crate::Sandbox::spawn`].
    pub stdin: Vec<u8>,
    /// Readable files and directories, in addition to the system's programs and libraries.
    pub readable_paths: Vec<PathBuf>,
    /// Readable and writable directories.
    pub writable_paths: Vec<PathBuf>,
    /// Writable path to which the policy's workspace limits apply. A workspace that exceeds them at the start must not
    /// grow, so that code can still clean it up.
    pub workspace: Option<PathBuf>,
    /// Socket of a filtering proxy. Network access requires this socket and a policy that allows the network, and all
    /// of it goes through the proxy.
    pub proxy_socket: Option<PathBuf>,
    /// Whether the owner allowed the network for this program, regardless of the policy.
    pub network_allowed: bool,
    pub limits: RunLimits,
}

impl RunRequest {
    /// Creates a request for a program with its arguments.
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, arguments: impl IntoIterator<Item = A>) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

impl RunRequest {
    /// Returns the workspace's path inside, with its limits.
    pub(crate) fn bounded_workspace(
        &self,
        policy: &Policy,
    ) -> Result<Option<(PathBuf, WorkspaceBounds)>, SandboxError> {
        let Some(path) = &self.workspace else { return Ok(None) };
        let path = path.canonicalize().map_err(|source| SandboxError::Path { path: path.clone(), source })?;
        Ok(Some((path, policy.workspace_bounds())))
    }
}

/// Reason for the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Ended {
    Exited {
        code: i32,
    },
    Signaled {
        signal: i32,
    },
    /// The program could not be started because it does not exist or is not executable.
    NotStarted {
        reason: String,
    },
    TimeLimit,
    /// Memory limit, including kernel memory.
    MemoryLimit {
        limit: u64,
    },
    ProcessLimit,
    DiskLimit,
    FileLimit,
    /// The workspace exceeds its size limit, or exceeded it at the start and has grown.
    WorkspaceBytes {
        limit: u64,
    },
    /// The workspace exceeds its limit of files, or exceeded it at the start and has grown.
    WorkspaceFiles {
        limit: u64,
    },
    /// The remaining disk space is reserved.
    DiskShort,
    OutputLimit,
    /// The run was stopped from outside.
    Stopped,
}

impl Ended {
    /// Whether the program exited with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Exited { code: 0 })
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with code {code}"),
            Self::Signaled { signal } => write!(f, "was killed by signal {signal}"),
            Self::NotStarted { reason } => write!(f, "could not be started: {reason}"),
            Self::TimeLimit => f.write_str("exceeded its time limit and was stopped"),
            Self::MemoryLimit { limit } => {
                write!(f, "exceeded the memory limit of {} MB (`memory_limit_mb`) and was stopped", limit >> 20)
            }
            Self::ProcessLimit => f.write_str("exceeded the limit of processes and was stopped"),
            Self::DiskLimit => f.write_str("exceeded the limit of disk space and was stopped"),
            Self::FileLimit => f.write_str("exceeded the limit of files and was stopped"),
            Self::WorkspaceBytes { limit } => write!(
                f,
                "was stopped because its workspace reached the limit of {} MB (`workspace_limit_mb`); delete \
                 files first",
                limit >> 20
            ),
            Self::WorkspaceFiles { limit } => write!(
                f,
                "was stopped because its workspace reached the limit of {limit} files and folders \
                 (`workspace_max_files`); delete files first"
            ),
            Self::DiskShort => f.write_str(
                "was stopped because only the disk space reserved for the daemon is left; free disk space first",
            ),
            Self::OutputLimit => f.write_str("exceeded the limit of output and was stopped"),
            Self::Stopped => f.write_str("was stopped"),
        }
    }
}

/// Outcome of a run.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    pub ended: Ended,
    pub stdout: Captured,
    pub stderr: Captured,
    /// Time from the start of the sandbox to the end of everything in it.
    pub duration: Duration,
    pub tier: crate::Tier,
}
