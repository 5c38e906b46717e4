//! Reasons why a run could not be started.

use std::io;
use std::path::PathBuf;

use agentd_base::{DomainError, ErrorKind};
use agentd_process::SpawnError;

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// No tier of the configured backend passed its canary.
    #[error("code cannot run because no sandbox is available: {reason}. To enable one: {remedy}")]
    Unavailable { reason: String, remedy: String },
    #[error("the sandbox policy does not permit network access")]
    NetworkForbidden,
    #[error(
        "the `{tier}` sandbox does not support network access; install bubblewrap (Debian: apt install bubblewrap)"
    )]
    NetworkUnsupported { tier: crate::Tier },
    #[error("`{}` cannot be shared with the sandbox: {reason}", path.display())]
    PathRefused { path: PathBuf, reason: &'static str },
    #[error("`{}` cannot be shared with the sandbox", path.display())]
    Path {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "`{name}` is not a valid environment variable: a name must not be empty or contain `=`, and neither name \
         nor value may contain NUL"
    )]
    Variable { name: String },
    #[error("limit of concurrent sandboxes reached ({limit}); retry later")]
    Busy { limit: usize },
    #[error("failed to prepare the sandbox ({step})")]
    Prepare {
        step: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("failed to start the sandbox")]
    Start(#[from] SpawnError),
}

impl SandboxError {
    pub(crate) fn prepare(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Prepare { step, source }
    }
}

impl DomainError for SandboxError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::NetworkForbidden | Self::NetworkUnsupported { .. } | Self::PathRefused { .. } => ErrorKind::Forbidden,
            Self::Path { .. } | Self::Variable { .. } => ErrorKind::Invalid(Vec::new()),
            Self::Busy { .. } => ErrorKind::TooMany(std::time::Duration::from_secs(1)),
            Self::Prepare { .. } | Self::Start(_) => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "sandbox_unavailable",
            Self::NetworkForbidden => "sandbox_network_forbidden",
            Self::NetworkUnsupported { .. } => "sandbox_network_unsupported",
            Self::PathRefused { .. } => "sandbox_path_refused",
            Self::Path { .. } => "sandbox_path_unusable",
            Self::Variable { .. } => "sandbox_variable_invalid",
            Self::Busy { .. } => "sandbox_busy",
            Self::Prepare { .. } | Self::Start(_) => "sandbox_failed",
        }
    }
}
