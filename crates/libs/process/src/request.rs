//! A program to be started.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::before_exec::BeforeExec;

/// Where one of a child's standard streams leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stream {
    /// To `/dev/null`.
    #[default]
    Null,
    /// To a pipe whose other end the [`Child`](crate::Child) holds.
    Pipe,
}

/// A program to be started.
#[derive(Debug, Clone, Default)]
pub struct SpawnRequest {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// The child's whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// `None`: the daemon's.
    pub current_directory: Option<PathBuf>,
    pub stdin: Stream,
    pub stdout: Stream,
    pub stderr: Stream,
    /// Descriptors that the program keeps, under the numbers that they have here.
    pub descriptors: Vec<Arc<OwnedFd>>,
    /// Runs in the child before the program, with the daemon's rights.
    pub before_exec: Option<BeforeExec>,
}

impl SpawnRequest {
    /// A program without arguments, environment, or streams.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..Self::default() }
    }
}
