//! Errors of the vault.

use std::path::PathBuf;

use agentd_base::{DomainError, ErrorKind};
use agentd_store::StoreError;

use crate::runtime::TrustedFileError;

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("the key file {} cannot be {action}; check the folder and its permissions, or set SVC_SECRET_KEY_FILE to another file", .path.display())]
    KeyFile { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the key file {} is readable by other users (mode {mode:04o}); run `chmod 600 {}`", .path.display(), .path.display())]
    KeyFileExposed { path: PathBuf, mode: u32 },
    #[error(transparent)]
    KeyFileUntrusted(#[from] TrustedFileError),
    #[error("the key file {} does not contain a key of 64 hexadecimal characters; restore the correct file", .path.display())]
    KeyFileInvalid { path: PathBuf },
    #[error(
        "the key file {} is missing, but the secrets in the database are encrypted with it; restore it, or set SVC_SECRET_KEY_FILE to its path \
         (all replicas use the same file). Without it, the stored secrets cannot be recovered: delete the row `vault_key_fingerprint` from the table \
         `store_info` and all rows of `secrets`, and enter the secrets again",
        .path.display()
    )]
    KeyMissing { path: PathBuf },
    #[error(
        "the key file {} does not match the secrets in the database; restore the correct file, or set SVC_SECRET_KEY_FILE to its path \
         (all replicas use the same file)",
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
