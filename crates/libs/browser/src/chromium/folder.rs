//! The temporary folder of one Chromium: the profile, files on their way in and out.
//!
//! The folder itself is the daemon's and locked by it; what is in it belongs to Chromium's user. A
//! folder that no living process has locked was left by a daemon that was killed, and is removed.

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

    /// Removes it while others may still hold this handle; its browser is gone.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.directory)
    }

    pub(super) fn profile(&self) -> PathBuf {
        self.directory.join(PROFILE)
    }

    /// Where Chromium writes downloads, under names that it makes.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.directory.join(DOWNLOADS)
    }

    fn uploads(&self) -> PathBuf {
        self.directory.join(UPLOADS)
    }

    /// Copies a file to where Chromium's user can read it. `number` is unique for this Chromium.
    pub(crate) fn lend(&self, file: &Path, number: u64, most: u64) -> io::Result<PathBuf> {
        let name = file.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let source = File::open(file)?;
        let metadata = source.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        if metadata.len() > most {
            return Err(io::Error::other(format!("it is larger than {most} bytes")));
        }
        let folder = self.uploads().join(number.to_string());
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let path = folder.join(name);
        let mut copy = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        io::copy(&mut io::Read::take(source, most), &mut copy)?;
        copy.set_permissions(Permissions::from_mode(0o400))?;
        chown(&path, self.user, self.user)?;
        chown(&folder, self.user, self.user)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What could not be removed is abandoned, and found as such.
        let _ = self.remove();
    }
}

/// The lock last: what is left when this fails, by a process that still writes, is found by it later.
fn remove(directory: &Path) -> io::Result<()> {
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    for part in PARTS {
        gone(fs::remove_dir_all(directory.join(part)))?;
    }
    gone(fs::remove_dir_all(directory))
}

/// Removes the folders of browsers whose daemons were killed. Blocks.
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
        // Without a lock file it is just being made.
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            && let Err(error) = remove(&path)
        {
            tracing::warn!(path = %path.display(), %error, "an abandoned folder of a browser could not be removed");
        }
    }
}
