//! Errors of the store, as fine-grained as callers need.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{DomainError, ErrorKind};

use crate::value::ValueError;

/// Error of the database driver.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Error of the store. Cheap to clone, because one failed commit is reported to a whole batch.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("row not found")]
    NoRow,
    #[error("a row with the same unique value already exists ({detail})")]
    Unique { detail: String },
    #[error("a row references a missing row, or is still referenced ({detail})")]
    ForeignKey { detail: String },
    #[error("a row violates a constraint of its table ({detail})")]
    Constraint { detail: String },
    #[error("column `{column}` cannot be read")]
    Column { column: String, source: ValueError },
    #[error("parameter ${position} cannot be stored")]
    Argument { position: usize, source: ValueError },
    /// The closure panicked; its changes were rolled back without affecting others.
    #[error("the database operation panicked: {message}")]
    Panicked { message: String },
    /// An earlier statement failed, so the transaction can only be rolled back.
    #[error("an earlier statement of this transaction failed, so it can only be rolled back")]
    Aborted,
    #[error("a transaction must not wait for another transaction")]
    Nested,
    #[error("the lease on queue item {item} was lost to another worker")]
    LostLease { item: String },
    #[error("a request with this Idempotency-Key was already executed")]
    IdempotencyConflict,
    /// The database cannot be reached or cannot write; the condition may be temporary.
    #[error("the database is unavailable: {reason}")]
    Unavailable { reason: String, source: Option<Cause> },
    #[error("too many concurrent changes conflict; retry")]
    Contended,
    #[error("the database is closed")]
    Closed,
    #[error("another daemon{} already uses {}; stop it or choose another data directory", holder(*.pid), .path.display())]
    AlreadyRunning { path: PathBuf, pid: Option<u32> },
    #[error(
        "the database has schema version {found}, but this version of agentd supports up to {known}; use a newer version"
    )]
    NewerSchema { found: u32, known: u32 },
    #[error("SQLite {found} is too old; 3.51.3 or newer is required")]
    OldSqlite { found: String },
    #[error("the database URL is not valid: {reason}")]
    InvalidUrl { reason: String },
    #[error("migration {version} ({name}) failed")]
    Migration { version: u32, name: String, source: Cause },
    #[error("migration {version} ({name}) left rows in table {table} that reference missing rows")]
    MigrationForeignKeys { version: u32, name: String, table: String },
    #[error("the backup cannot be used: {reason}")]
    Dump { reason: String },
    #[error("{action} {} failed", .path.display())]
    Io { action: &'static str, path: PathBuf, source: Arc<std::io::Error> },
    #[error("reading or writing the backup failed")]
    Stream { source: Arc<std::io::Error> },
    #[error("table not found in the database ({detail})")]
    NoTable { detail: String },
    #[error("the database rejected a statement")]
    Database { source: Cause },
}

fn holder(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

impl StoreError {
    /// Whether a unique constraint was violated; the caller then names the duplicate value.
    #[must_use]
    pub fn is_unique_violation(&self) -> bool {
        matches!(self, Self::Unique { .. })
    }

    /// Whether the condition may be temporary, so that the daemon is not ready rather than faulty.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Closed)
    }

    /// PostgreSQL, or a proxy in front of it, does not respond.
    pub(crate) fn timed_out() -> Self {
        Self::Unavailable { reason: "the server does not respond".to_owned(), source: None }
    }

    /// Whether the connection to PostgreSQL was lost, so that another one may succeed; false for timeouts.
    pub(crate) fn is_lost_connection(&self) -> bool {
        let Self::Unavailable { source: Some(source), .. } = self else { return false };
        match source.downcast_ref::<sqlx::Error>() {
            None | Some(sqlx::Error::PoolTimedOut) => false,
            Some(error) => {
                error.as_database_error().and_then(|refusal| refusal.code()).as_deref() != Some(QUERY_CANCELED)
            }
        }
    }

    /// Whether another process or connection holds an SQLite lock.
    pub(crate) fn is_busy(&self) -> bool {
        let Self::Unavailable { source: Some(source), .. } = self else { return false };
        let error = source.downcast_ref::<rusqlite::Error>();
        error.and_then(rusqlite::Error::sqlite_error_code) == Some(rusqlite::ErrorCode::DatabaseBusy)
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { action, path: path.into(), source: Arc::new(source) }
    }

    pub(crate) fn dump(reason: impl Into<String>) -> Self {
        Self::Dump { reason: reason.into() }
    }
}

impl From<std::io::Error> for StoreError {
    fn from(source: std::io::Error) -> Self {
        Self::Stream { source: Arc::new(source) }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        classify(error)
    }
}

fn classify(error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::RowNotFound => return StoreError::NoRow,
        sqlx::Error::PoolClosed => return StoreError::Closed,
        sqlx::Error::PoolTimedOut => return unavailable("no connection became free in time", error),
        // `Protocol` also occurs when a stopping server, or a proxy, closes the connection during the handshake.
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => {
            return unavailable("the connection failed", error);
        }
        sqlx::Error::WorkerCrashed => return unavailable("the connection was lost", error),
        _ => {}
    }
    let Some(refusal) = error.as_database_error() else {
        return StoreError::Database { source: Arc::new(error) };
    };
    let code = refusal.code().unwrap_or_default().into_owned();
    let detail = refusal.constraint().map_or_else(|| refusal.message().to_owned(), str::to_owned);
    match code.as_str() {
        "23505" => StoreError::Unique { detail },
        "23503" => StoreError::ForeignKey { detail },
        "42P01" => StoreError::NoTable { detail },
        _ if code.starts_with("23") => StoreError::Constraint { detail },
        _ => match postgres_outage(&code) {
            Some(Outage::Retry) => StoreError::Contended,
            Some(Outage::Down(reason)) => unavailable(reason, error),
            None => StoreError::Database { source: Arc::new(error) },
        },
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match &error {
            rusqlite::Error::SqliteFailure(failure, message) => {
                sqlite_refusal(failure.extended_code, message.clone().unwrap_or_default(), error)
            }
            _ => Self::Database { source: Arc::new(error) },
        }
    }
}

/// Extended result codes: <https://sqlite.org/rescode.html>.
fn sqlite_refusal(code: i32, detail: String, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    match code {
        // SQLITE_CONSTRAINT_UNIQUE, _PRIMARYKEY, _ROWID
        2067 | 1555 | 2579 => StoreError::Unique { detail },
        // SQLITE_CONSTRAINT_FOREIGNKEY
        787 => StoreError::ForeignKey { detail },
        _ if code & 0xff == 19 => StoreError::Constraint { detail },
        _ if detail.contains("no such table") => StoreError::NoTable { detail },
        _ => match sqlite_outage(code) {
            Some(reason) => unavailable(reason, error),
            None => StoreError::Database { source: Arc::new(error) },
        },
    }
}

/// Statement cancelled by its timeout or by an administrator.
const QUERY_CANCELED: &str = "57014";

enum Outage {
    Retry,
    Down(&'static str),
}

/// SQLSTATE classes: <https://www.postgresql.org/docs/15/errcodes-appendix.html>.
fn postgres_outage(code: &str) -> Option<Outage> {
    Some(match code {
        "40001" | "40P01" => Outage::Retry,
        "53100" => Outage::Down("the disk of the server is full"),
        "53300" => Outage::Down("the server has too many connections"),
        "25006" => Outage::Down("the server is read-only"),
        QUERY_CANCELED => Outage::Down("a statement took too long"),
        "25P03" | "25P04" => Outage::Down("a transaction took too long"),
        "40003" => Outage::Down("the outcome of a transaction is unknown"),
        "57P01" | "57P02" | "57P03" | "57P05" => Outage::Down("the server is shutting down or starting"),
        _ if code.starts_with("08") => Outage::Down("the connection failed"),
        _ if code.starts_with("53") => Outage::Down("the server is out of resources"),
        _ if code.starts_with("58") => Outage::Down("the storage of the server failed"),
        _ => return None,
    })
}

/// The low byte is the primary code.
fn sqlite_outage(code: i32) -> Option<&'static str> {
    Some(match code & 0xff {
        5 | 6 => "another process holds the lock of the database file",
        7 => "out of memory",
        8 => "the database file is read-only",
        10 => "reading or writing the database file failed",
        13 => "the disk is full",
        14 => "the database file cannot be opened",
        _ => return None,
    })
}

fn unavailable(reason: &str, source: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unavailable { reason: reason.to_owned(), source: Some(Arc::new(source)) }
}

impl DomainError for StoreError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoRow => ErrorKind::NotFound,
            Self::Unique { .. } | Self::LostLease { .. } | Self::IdempotencyConflict => ErrorKind::Conflict,
            Self::Unavailable { .. } | Self::Closed => ErrorKind::Unavailable,
            Self::Contended => ErrorKind::InProgress(Duration::from_secs(1)),
            Self::Dump { .. } | Self::InvalidUrl { .. } => ErrorKind::Invalid(Vec::new()),
            Self::Argument { .. } => ErrorKind::Invalid(Vec::new()),
            _ => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoRow => "not_found",
            Self::Unique { .. } => "already_exists",
            Self::LostLease { .. } => "lease_lost",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::Unavailable { .. } | Self::Closed => "database_unavailable",
            Self::Contended => "contended",
            Self::Dump { .. } => "bad_backup",
            Self::InvalidUrl { .. } => "bad_database_url",
            Self::Argument { .. } => "not_storable",
            _ => "internal",
        }
    }
}
