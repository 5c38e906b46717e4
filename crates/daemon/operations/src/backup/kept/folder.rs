//! Folder of stored archives. Each archive describes itself, so there is no index that could be lost or disagree. The
//! folder also contains the store's copies from before migrations, which are not archives.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use agentd_base::Timestamp;
use agentd_core::runtime::DataDir;
use rustix::fs::OFlags;

use crate::backup::archive::read_manifest;
use crate::backup::error::BackupError;
use crate::backup::model::Manifest;

const EXTENSION: &str = ".tar.gz";
/// Maximum number of listed archives, in case many were copied there manually.
const MAX_LISTED: usize = 200;
/// Name prefix of scheduled backups.
const DAILY_PREFIX: &str = "daily-";

/// Stored archive.
#[derive(Debug, Clone)]
pub struct StoredArchive {
    pub name: String,
    pub size_bytes: u64,
    pub manifest: Manifest,
}

impl StoredArchive {
    /// Returns whether it is a scheduled backup.
    #[must_use]
    pub fn is_daily(&self) -> bool {
        self.name.starts_with(DAILY_PREFIX)
    }

    pub(crate) fn daily_name(time: Timestamp, suffix: &str) -> String {
        archive_name(DAILY_PREFIX, time, suffix)
    }

    pub(crate) fn manual_name(time: Timestamp, suffix: &str) -> String {
        archive_name("backup-", time, suffix)
    }

    pub(crate) fn uploaded_name(time: Timestamp, suffix: &str) -> String {
        archive_name("upload-", time, suffix)
    }
}

/// Builds a name with a resolution of one second; the suffix makes it unique.
fn archive_name(kind: &str, time: Timestamp, suffix: &str) -> String {
    let time: String = time.to_string().chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
    format!("{kind}{time}-{suffix}{EXTENSION}")
}

/// Returns whether a name is valid for an archive in the folder.
fn is_archive_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    name.len() <= 120 && name.ends_with(EXTENSION) && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// Folder of the stored backups. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct BackupFolder(PathBuf);

impl BackupFolder {
    /// Opens the folder of stored backups, and creates it if necessary.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(crate) fn open(data_dir: &DataDir) -> Result<Self, BackupError> {
        let folder = data_dir.backups();
        data_dir.make_folder(&folder).map_err(BackupError::files("the folder of backups"))?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns all archives, newest first. Blocks.
    pub(crate) fn list(&self) -> Result<Vec<StoredArchive>, BackupError> {
        let entries = fs::read_dir(&self.0).map_err(BackupError::files("the folder of backups"))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let archives = names.filter(|name| is_archive_name(name)).filter_map(|name| match self.find(&name) {
            Ok((found, _)) => Some(found),
            Err(error) => {
                tracing::debug!(name, %error, "ignoring invalid archive in backup folder");
                None
            }
        });
        let mut found: Vec<StoredArchive> = archives.take(MAX_LISTED).collect();
        found.sort_by(|a, b| (b.manifest.created_at, &b.name).cmp(&(a.manifest.created_at, &a.name)));
        Ok(found)
    }

    /// Returns one archive, opened at its beginning. Blocks.
    pub(crate) fn find(&self, name: &str) -> Result<(StoredArchive, File), BackupError> {
        let missing = || BackupError::NotFound;
        if !is_archive_name(name) {
            return Err(missing());
        }
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(self.0.join(name));
        let mut file = opened.map_err(|_| missing())?;
        let metadata = file.metadata().map_err(|_| missing())?;
        if !metadata.is_file() {
            return Err(missing());
        }
        let manifest = read_manifest(&file)?;
        file.rewind().map_err(BackupError::files("the backup"))?;
        Ok((StoredArchive { name: name.to_owned(), size_bytes: metadata.len(), manifest }, file))
    }

    /// Deletes an archive. Blocks.
    pub(crate) fn remove(&self, name: &str) -> Result<(), BackupError> {
        self.find(name)?;
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(BackupError::NotFound),
            outcome => outcome.map_err(BackupError::files("the backup")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_name_cannot_leave_the_folder() {
        let time = Timestamp::parse("2026-01-05T09:00:00.123Z").unwrap();
        assert_eq!(StoredArchive::manual_name(time, "abc"), "backup-2026-01-05T09-00-00-abc.tar.gz");
        for name in [&StoredArchive::daily_name(time, "x"), &StoredArchive::uploaded_name(time, "x"), "my_own.tar.gz"] {
            assert!(is_archive_name(name), "{name}");
        }
        let long = format!("{}.tar.gz", "x".repeat(200));
        for name in
            ["", "x", "../x.tar.gz", "a/b.tar.gz", ".x.tar.gz", "x.tar.gz.partial", "ü.tar.gz", "a\0.tar.gz", &long]
        {
            assert!(!is_archive_name(name), "{name}");
        }
    }
}
