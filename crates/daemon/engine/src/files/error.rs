//! Errors of workspace files.

use std::io;

use agentd_base::{DomainError, ErrorKind, FieldProblem};

use crate::agents::AgentError;
use crate::workspaces::WorkspaceError;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error("the request body ended before the file was complete, so nothing was written; send it again")]
    BrokenBody,
    #[error("the range starts after the end of the file, which is {bytes} bytes long")]
    Range { bytes: u64 },
    #[error("the file operation was aborted")]
    BrokeOff,
}

impl DomainError for FileError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Agent(error) => error.kind(),
            Self::Workspace(error) => kind_of(error),
            Self::BrokenBody => ErrorKind::Invalid(Vec::new()),
            Self::Range { .. } => ErrorKind::RangeNotSatisfiable,
            Self::BrokeOff => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Agent(error) => error.code(),
            Self::Workspace(error) => code_of(error),
            Self::BrokenBody => "body_unreadable",
            Self::Range { .. } => "range_not_satisfiable",
            Self::BrokeOff => "internal_error",
        }
    }
}

fn kind_of(error: &WorkspaceError) -> ErrorKind {
    match error {
        WorkspaceError::BadPath { problem } => {
            ErrorKind::Invalid(vec![FieldProblem { field: "path".to_owned(), message: (*problem).to_owned() }])
        }
        WorkspaceError::Missing { .. } => ErrorKind::NotFound,
        WorkspaceError::TooLarge { .. } => ErrorKind::TooLarge,
        WorkspaceError::Exists { .. } | WorkspaceError::Changed { .. } => ErrorKind::PreconditionFailed,
        WorkspaceError::DiskShort(_) => ErrorKind::Unavailable,
        WorkspaceError::Io { source, .. } => match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Unavailable,
            io::ErrorKind::PermissionDenied => ErrorKind::Conflict,
            _ => ErrorKind::Internal,
        },
        _ => ErrorKind::Conflict,
    }
}

fn code_of(error: &WorkspaceError) -> &'static str {
    match error {
        WorkspaceError::BadPath { .. } => "invalid_request",
        WorkspaceError::Missing { .. } => "file_not_found",
        WorkspaceError::IsFolder { .. } => "is_directory",
        WorkspaceError::NoFolder { .. } => "not_a_directory",
        WorkspaceError::Link { .. } => "is_link",
        WorkspaceError::ManyNames { .. } | WorkspaceError::Special { .. } => "not_a_file",
        WorkspaceError::TooLarge { .. } => "file_too_large",
        WorkspaceError::TooManyFiles { .. } | WorkspaceError::Full { .. } => "workspace_full",
        WorkspaceError::DiskShort(_) => "disk_full",
        WorkspaceError::Taken { .. } | WorkspaceError::Exists { .. } => "file_exists",
        WorkspaceError::Changed { .. } => "file_changed",
        WorkspaceError::NotEmpty { .. } => "directory_not_empty",
        WorkspaceError::WrittenByOthers { .. } => "file_being_written",
        WorkspaceError::Io { source, .. } => match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "disk_full",
            io::ErrorKind::PermissionDenied => "file_not_permitted",
            _ => "internal_error",
        },
    }
}
