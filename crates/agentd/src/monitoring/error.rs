//! Why the daemon is not ready.

use agentd_base::{DomainError, ErrorKind};

use super::readiness::Phase;

/// Answered as 503. `Display` says what it waits for and what a person can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    #[error("The daemon is starting or migrating its database; it gets ready by itself")]
    Starting,
    #[error("The daemon is going down: replies under way are brought to their end, nothing new is taken")]
    Draining,
    #[error("The daemon is restoring a backup; it is ready again when that is done")]
    Restoring,
    /// A component that the daemon cannot serve without.
    #[error("{message}")]
    Component { code: &'static str, message: String },
}

impl NotReady {
    /// `None` for a phase in which work is taken.
    #[must_use]
    pub fn from_phase(phase: Phase) -> Option<Self> {
        match phase {
            Phase::Starting => Some(Self::Starting),
            Phase::Draining => Some(Self::Draining),
            Phase::Restoring => Some(Self::Restoring),
            Phase::Ready => None,
        }
    }
}

impl DomainError for NotReady {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Unavailable
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Draining => "draining",
            Self::Restoring => "restoring",
            Self::Component { code, .. } => code,
        }
    }
}
