//! Errors of backups and restores.

use std::io;
use std::path::PathBuf;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_core::settings::SettingsError;
use agentd_core::vault::VaultError;
use agentd_store::StoreError;

use super::model::OmittedList;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The archive is invalid, truncated or modified. The daemon was not changed.
    #[error("The archive cannot be used: {reason}; nothing was changed")]
    Archive { reason: String },
    #[error(
        "The archive has format version {found}, but this daemon supports versions up to {known}; restore it with a newer version of agentd; nothing was changed"
    )]
    NewerFormat { found: u32, known: u32 },
    #[error("The passphrase does not match the secrets of this archive; nothing was changed")]
    WrongPassphrase,
    #[error("This archive contains no secrets; restore it without a passphrase")]
    NoSecrets,
    #[error("The passphrase must have at least {minimum} characters")]
    ShortPassphrase { minimum: usize },
    #[error("The passphrase is not valid base64 of UTF-8 text")]
    MalformedPassphrase,
    #[error("A backup or restore is already running; retry when it is complete")]
    Busy,
    #[error("Another backup is being uploaded; retry when the upload is complete")]
    Uploading,
    #[error(
        "{} files or folders cannot be read and would be missing in the backup: {left_out}; make them readable, remove them, or omit them with `--allow-incomplete` (`allow_incomplete` in the API)",
        .left_out.total
    )]
    Incomplete { left_out: OmittedList },
    #[error("The daemon cannot be paused for the restore: {reason}")]
    QuiesceFailed { reason: String },
    /// Other daemons share the database but are not quiesced by this process.
    #[error(
        "Other daemons ({count}) use this database, and a restore cannot pause them; stop them, restore again, then start them; nothing was changed"
    )]
    OtherDaemons { count: u64 },
    /// The database was replaced, but a later step failed.
    #[error(
        "The database was restored, but its files and secrets were not; restart the daemon to complete the restore"
    )]
    Unfinished { source: Box<BackupError> },
    /// The prepared files were removed by another process.
    #[error(
        "The database was restored, but the files to restore in {} are missing; delete restore.json in the same directory to continue with the current files, then restore the archive again",
        .folder.display()
    )]
    FilesGone { folder: PathBuf },
    #[error("Reading or writing {what} failed; check the free disk space and the permissions")]
    Files { what: String, source: io::Error },
    /// The owner must free disk space; this is not an internal error.
    #[error("No disk space left for {what}; free space on the disk of the data directory, then retry")]
    DiskFull { what: String, source: io::Error },
    #[error("The secrets cannot be encrypted: {reason}")]
    Sealing { reason: String },
    #[error("The operation ended unexpectedly; see the daemon's log")]
    EndedUnexpectedly,
    #[error("Backup not found; list backups with GET /api/backups")]
    NotFound,
    #[error("The field `confirm` must repeat the name of the backup")]
    NotConfirmed,
    #[error("Backup limit reached ({limit}); delete backups that are no longer needed")]
    TooMany { limit: usize },
    #[error(
        "The size limit of all backups is reached (setting `backup.limit_mb`); delete backups that are no longer needed, or raise the limit"
    )]
    Full,
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A stored secret cannot be decrypted.
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BackupError {
    pub(super) fn archive(reason: impl Into<String>) -> Self {
        Self::Archive { reason: reason.into() }
    }

    pub(super) fn files(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { what, source },
            _ => Self::Files { what, source },
        }
    }

    /// Converts an error of the store while it read or wrote one of our files.
    pub(super) fn stream(what: &str, error: StoreError) -> Self {
        match error {
            StoreError::Stream { source } => Self::files(what)(io::Error::new(source.kind(), source)),
            other => Self::Store(other),
        }
    }
}

impl DomainError for BackupError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Archive { .. }
            | Self::NewerFormat { .. }
            | Self::WrongPassphrase
            | Self::NoSecrets
            | Self::ShortPassphrase { .. }
            | Self::MalformedPassphrase => ErrorKind::Invalid(Vec::new()),
            Self::NotConfirmed => ErrorKind::Invalid(vec![FieldProblem {
                field: "confirm".to_owned(),
                message: "must be the name of the backup".to_owned(),
            }]),
            Self::NotFound => ErrorKind::NotFound,
            Self::Busy
            | Self::Uploading
            | Self::OtherDaemons { .. }
            | Self::Incomplete { .. }
            | Self::TooMany { .. }
            | Self::Full => ErrorKind::Conflict,
            Self::Settings(error) => error.kind(),
            Self::QuiesceFailed { .. } | Self::DiskFull { .. } => ErrorKind::Unavailable,
            Self::EndedUnexpectedly
            | Self::Unfinished { .. }
            | Self::FilesGone { .. }
            | Self::Sealing { .. }
            | Self::Files { .. } => ErrorKind::Internal,
            Self::Store(StoreError::Dump { .. }) => ErrorKind::Invalid(Vec::new()),
            Self::Vault(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Archive { .. } => "bad_archive",
            Self::NewerFormat { .. } => "newer_format",
            Self::WrongPassphrase => "wrong_passphrase",
            Self::NoSecrets => "no_secrets",
            Self::ShortPassphrase { .. } => "short_passphrase",
            Self::MalformedPassphrase => "malformed_passphrase",
            Self::NotFound => "not_found",
            Self::NotConfirmed => "invalid_request",
            Self::TooMany { .. } => "too_many_backups",
            Self::Full => "backups_full",
            Self::Settings(error) => error.code(),
            Self::Busy | Self::Uploading => "busy",
            Self::Incomplete { .. } => "incomplete",
            Self::OtherDaemons { .. } => "other_daemons",
            Self::QuiesceFailed { .. } => "quiesce_failed",
            Self::DiskFull { .. } => "disk_full",
            Self::EndedUnexpectedly
            | Self::Unfinished { .. }
            | Self::FilesGone { .. }
            | Self::Sealing { .. }
            | Self::Files { .. } => "internal_error",
            Self::Store(StoreError::Dump { .. }) => "bad_archive",
            Self::Vault(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn full_disk_is_reported_as_disk_full() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let stream = StoreError::Stream { source: Arc::new(io::Error::from(kind)) };
            for error in [BackupError::files("the dump")(kind.into()), BackupError::stream("the dump", stream)] {
                assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, "disk_full"));
                assert!(error.to_string().starts_with("No disk space left for the dump"), "{error}");
            }
        }
        let other = BackupError::files("the dump")(io::ErrorKind::PermissionDenied.into());
        assert_eq!(other.kind(), ErrorKind::Internal);
    }
}
