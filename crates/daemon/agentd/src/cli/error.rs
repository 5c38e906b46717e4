//! Errors of commands. Each message ends with the next step.

use std::io;
use std::path::PathBuf;

use agentd_core::runtime::TrustedFileError;

use crate::lifecycle::StartError;

#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    #[error(
        "a daemon uses {} but does not respond on its private socket; it may still be starting: retry, and if this persists, check its log or restart it",
        .data_dir.display()
    )]
    Unresponsive { data_dir: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("no permission to open the private socket {}; run this command as the user that the daemon runs as", .path.display())]
    PermissionDenied { path: PathBuf, source: io::Error },
    #[error("no daemon runs on {}; start one with `agentd`, or name another with --url", .data_dir.display())]
    NotRunning { data_dir: PathBuf },
    #[error("no daemon responds at {url}; check the URL and that the daemon is running")]
    Unreachable { url: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// Error message of the daemon.
    #[error("{message}")]
    Refused { status: u16, message: String },
    #[error("the daemon closed the connection; check its log")]
    Broken { source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the daemon's response cannot be parsed; compare its version in `agentd doctor` with `agentd --version`")]
    Unreadable { source: serde_json::Error },
    #[error("{action} {} failed", .path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the key could not be written to stdout and was revoked; create another one")]
    KeyRevoked { source: io::Error },
    #[error(
        "the key could not be written to stdout; revoke it with `agentd keys revoke {id}`, then create another one"
    )]
    KeyLost { id: String, source: io::Error },
    #[error("{0}")]
    Usage(String),
    #[error("the operating system reported an error")]
    Machine { source: io::Error },
    #[error(transparent)]
    Untrusted(#[from] TrustedFileError),
    #[error(
        "the private socket {} is not trusted: {problem}; run this command as the user that the daemon runs as, or name another data directory with SVC_DATA_DIR",
        .path.display()
    )]
    ForeignSocket { path: PathBuf, problem: String },
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Backup(#[from] agentd_operations::backup::BackupError),
}

impl CliError {
    pub(super) fn broken(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Broken { source: source.into() }
    }

    pub(super) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
