//! Helpers for archive entries and their errors.

use std::io::{self, Read};
use std::path::Path;

use crate::backup::error::BackupError;
use crate::backup::model::display_path;

pub(super) const UNPACKED: &str = "the unpacked archive";
pub(super) const MAX_NAME_BYTES: u64 = 64 * 1024;

pub(super) fn read_text(entry: &mut impl Read) -> Result<Vec<u8>, BackupError> {
    let mut text = Vec::new();
    entry.take(MAX_NAME_BYTES).read_to_end(&mut text).map_err(archive_error)?;
    Ok(text)
}

pub(super) fn read_long_text(entry: &mut impl Read) -> Result<Vec<u8>, BackupError> {
    let mut text = read_text(entry)?;
    while text.last() == Some(&0) {
        text.pop();
    }
    Ok(text)
}

pub(super) fn archive_error(error: io::Error) -> BackupError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => BackupError::archive("it is truncated"),
        io::ErrorKind::StorageFull | io::ErrorKind::PermissionDenied | io::ErrorKind::QuotaExceeded => {
            BackupError::files(UNPACKED)(error)
        }
        _ => BackupError::archive(format!("it is damaged or not an agentd archive ({error})")),
    }
}

pub(super) fn unpack_error(path: &Path, error: io::Error) -> BackupError {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            BackupError::archive(format!("`{}` occurs twice, or its folder is missing", display_path(path)))
        }
        _ => BackupError::files(format!("`{}`", display_path(path)))(error),
    }
}
