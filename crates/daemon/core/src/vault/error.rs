//! Errors of the vault.

use std::path::PathBuf;

use agentd_base::{DomainError, ErrorKind};
use agentd_store::StoreError;

use crate::runtime::TrustedFileError;

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("the key file {} cannot be {action}; check the folder and its permissions, or name another with SVC_SECRET_KEY_FILE", .path.display())]
    KeyFile { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the key file {} may be read by others (mode {mode:04o}); run `chmod 600 {}`", .path.display(), .path.display())]
    KeyFileExposed { path: PathBuf, mode: u32 },
    #[error(transparent)]
    KeyFileUntrusted(#[from] TrustedFileError),
    #[error("the key file {} does not contain a key: 64 hexadecimal characters are expected; restore the correct file", .path.display())]
    KeyFileInvalid { path: PathBuf },
    #[error(
        "the key file {} is missing, and the secrets in the database are sealed with it; put it back, or name it with SVC_SECRET_KEY_FILE \
         (replicas share one). If it is lost for good, so are the stored secrets: delete the row `vault_key_fingerprint` from the table `store_info` \
         and all rows of `secrets`, and enter them again",
        .path.display()
    )]
    KeyMissing { path: PathBuf },
    #[error(
        "the key file {} is not the one that the secrets in the database are sealed with; put the right one there, or name it with SVC_SECRET_KEY_FILE \
         (replicas share one)",
        .path.display()
    )]
    WrongKey { path: PathBuf },
    #[error("the stored secret {scope}/{name} cannot be decrypted with this daemon's key; enter it again")]
    Unsealable { scope: String, name: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DomainError for VaultError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unsealable { .. } => ErrorKind::Unavailable,
            Self::Store(error) => error.kind(),
            _ => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unsealable { .. } => "secret_unreadable",
            Self::Store(error) => error.code(),
            _ => "internal_error",
        }
    }
}
