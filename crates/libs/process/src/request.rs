//! Description of a program to start.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::before_exec::BeforeExec;

/// Target of one of the child's standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stream {
    /// `/dev/null`.
    #[default]
    Null,
    /// Pipe whose other end is in the [`Child`](crate::Child).
    Pipe,
}

/// Program to start.
#[derive(Debug, Clone, Default)]
pub struct SpawnRequest {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Complete environment of the child.
    pub environment: Vec<(OsString, OsString)>,
    /// `None` uses the daemon's current directory.
    pub current_directory: Option<PathBuf>,
    pub stdin: Stream,
    pub stdout: Stream,
    pub stderr: Stream,
    /// Descriptors inherited by the program, with the same numbers.
    pub descriptors: Vec<Arc<OwnedFd>>,
    /// Hook that runs in the child before the program, with the daemon's rights.
    pub before_exec: Option<BeforeExec>,
}

impl SpawnRequest {
    /// Creates a request without arguments, environment or streams.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..Self::default() }
    }
}
