//! Errors of the index.

use std::io;
use std::path::PathBuf;

use agentd_base::{DomainError, ErrorKind};

use crate::row_set::RowNumber;

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("the search index in {folder} is in use by another process; stop that process", folder = .0.display())]
    Locked(PathBuf),
    #[error("failed to {action} {path} of the search index", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The files differ from what was written. The index must be reset (`Index::reset`) and rebuilt from all rows.
    #[error("the search index is damaged ({reason}) and must be rebuilt from the rows")]
    Damaged { reason: String },
    #[error("the vector of row {row} has {found} dimensions; expected {expected}", row = .row.0)]
    Dimensions { row: RowNumber, expected: usize, found: usize },
    #[error("the vector of row {row} is zero or not finite", row = .row.0)]
    Vector { row: RowNumber },
    #[error("row {row} has {found} vectors; the limit is {most}", row = .row.0)]
    TooManyVectors { row: RowNumber, found: usize, most: usize },
    #[error("the query vector is zero, not finite, or has {found} dimensions instead of {expected}")]
    QueryVector { expected: usize, found: usize },
    #[error("row {row} is not in the search index", row = .0.0)]
    UnknownRow(RowNumber),
    #[error("the cursor has {found} bytes; the limit is {most}")]
    Cursor { found: usize, most: usize },
    #[error("the search index is full")]
    Full,
}

impl IndexError {
    pub(crate) fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged { reason: reason.into() }
    }

    /// Whether the index must be reset and rebuilt.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

impl DomainError for IndexError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownRow(_) => ErrorKind::NotFound,
            _ => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::UnknownRow(_) => "not_found",
            _ => "search_index",
        }
    }
}
