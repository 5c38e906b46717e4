//! Temporary directory of one Chromium: the profile, uploads and downloads.
//!
//! The directory belongs to the daemon, which locks it; its contents belong to Chromium's user. An unlocked directory
//! was left by a killed daemon and is removed.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

const PREFIX: &str = "agentd-browser-";
const LOCK: &str = "lock";
const PROFILE: &str = "profile";
const DOWNLOADS: &str = "downloads";
const UPLOADS: &str = "uploads";
const PARTS: [&str; 3] = [PROFILE, DOWNLOADS, UPLOADS];

#[derive(Debug)]
pub(crate) struct Folder {
    directory: PathBuf,
    user: Option<u32>,
    _lock: File,
}

impl Folder {
    pub(super) fn create(parent: &Path, user: Option<u32>) -> io::Result<Self> {
        remove_abandoned(parent);
        let directory = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(if user.is_some() { 0o711 } else { 0o700 }))
            .tempdir_in(parent)?;
        let lock = File::create(directory.path().join(LOCK))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let folder = Self { directory: directory.keep(), user, _lock: lock };
        for path in [folder.profile(), folder.downloads(), folder.uploads()] {
            fs::DirBuilder::new().mode(0o700).create(&path)?;
            chown(&path, user, user)?;
        }
        Ok(folder)
    }

    /// Removes the directory after its browser has ended, even if other handles exist.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.directory)
    }

    pub(super) fn profile(&self) -> PathBuf {
        self.directory.join(PROFILE)
    }

    /// Directory where Chromium writes downloads, under generated names.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.directory.join(DOWNLOADS)
    }

    fn uploads(&self) -> PathBuf {
        self.directory.join(UPLOADS)
    }

    /// Copies a file to a location that Chromium's user can read. `number` must be unique for this Chromium.
    pub(crate) fn copy_upload(&self, file: &Path, number: u64, max_bytes: u64) -> io::Result<PathBuf> {
        let name = file.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let source = File::open(file)?;
        let metadata = source.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        if metadata.len() > max_bytes {
            return Err(io::Error::other(format!("it exceeds {max_bytes} bytes")));
        }
        let folder = self.uploads().join(number.to_string());
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let path = folder.join(name);
        let mut copy = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        io::copy(&mut io::Read::take(source, max_bytes), &mut copy)?;
        copy.set_permissions(Permissions::from_mode(0o400))?;
        chown(&path, self.user, self.user)?;
        chown(&folder, self.user, self.user)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Anything that remains is removed later as an abandoned directory.
        let _ = self.remove();
    }
}

/// Removes the lock file last: if removal fails because a process still writes, the remainder is found later.
fn remove(directory: &Path) -> io::Result<()> {
    let ignore_missing = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    for part in PARTS {
        ignore_missing(fs::remove_dir_all(directory.join(part)))?;
    }
    ignore_missing(fs::remove_dir_all(directory))
}

/// Removes directories left by killed daemons. Blocks.
pub fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
            && path
                .symlink_metadata()
                .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw());
        if !is_ours {
            continue;
        }
        // Without a lock file it is still being created.
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            && let Err(error) = remove(&path)
        {
            tracing::warn!(path = %path.display(), %error, "failed to remove abandoned browser directory");
        }
    }
}
