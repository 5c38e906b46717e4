//! Data directory: all files of the daemon are below it.

use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const DATABASE: &str = "agentd.db";
/// Lock file of the store.
const DATABASE_LOCK: &str = "agentd.lock";
const SECRET_KEY: &str = "secret.key";
const SOCKET_LOCK: &str = "agentd.sock.lock";

/// Reason why a directory is not accepted as the data directory.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("the data directory {} cannot be used; check that it is writable, or set SVC_DATA_DIR to another directory", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error(
        "the directory {} is accessible to other users (mode {mode:o}) and contains no files of this program, so it may belong to another program; use a separate directory, such as SVC_DATA_DIR={}, or restrict it with `chmod 700 {}`",
        .path.display(), .path.join("agentd").display(), .path.display()
    )]
    Shared { path: PathBuf, mode: u32 },
    #[error(
        "the data directory {} belongs to user {owner}, but this program runs as user {user}; run it as user {owner}, or change the owner with `chown -R {user} {}`",
        .path.display(), .path.display()
    )]
    ForeignOwner { path: PathBuf, owner: u32, user: u32 },
}

/// Paths inside the data directory, which only its owner can access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// Opens the directory and creates it (mode 0700) if it does not exist. Access of other users is removed only if
    /// the directory is empty or contains files of this program; a directory that other programs use is not changed.
    ///
    /// # Errors
    /// `DataDirError` if it cannot be created, is not a directory, or belongs to another user or program.
    pub fn open(root: &Path) -> Result<Self, DataDirError> {
        let failed = |source| DataDirError::Unusable { path: root.to_path_buf(), source };
        match std::fs::metadata(root) {
            Ok(found) => restrict_to_owner(root, &found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_private(root).map_err(failed)?,
            Err(error) => return Err(failed(error)),
        }
        let root = root.canonicalize().map_err(failed)?;
        Ok(Self { root })
    }

    /// Whether the directory contains files of this program.
    #[must_use]
    pub fn contains_own_files(root: &Path) -> bool {
        [DATABASE, DATABASE_LOCK, SECRET_KEY, SOCKET_LOCK].iter().any(|name| root.join(name).is_file())
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join(DATABASE)
    }

    /// Private socket through which the command line reaches a running daemon.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.root.join("agentd.sock")
    }

    /// Lock held by the daemon that owns the socket.
    #[must_use]
    pub fn socket_lock(&self) -> PathBuf {
        self.root.join(SOCKET_LOCK)
    }

    /// Lock held while a backup is created or restored, or an interrupted restore is finished.
    #[must_use]
    pub fn backup_lock(&self) -> PathBuf {
        self.root.join("backup.lock")
    }

    #[must_use]
    pub fn secret_key(&self) -> PathBuf {
        self.root.join(SECRET_KEY)
    }

    /// Workspaces, one directory per agent.
    #[must_use]
    pub fn agents(&self) -> PathBuf {
        self.root.join("agents")
    }

    #[must_use]
    pub fn avatars(&self) -> PathBuf {
        self.root.join("avatars")
    }

    /// Browser recordings and downloads.
    #[must_use]
    pub fn recordings(&self) -> PathBuf {
        self.root.join("recordings")
    }

    /// Backups of the daemon, and the store's copies from before migrations.
    #[must_use]
    pub fn backups(&self) -> PathBuf {
        self.root.join("backups")
    }

    /// GGUF files; `agent.local_model` names one of them.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// Search indexes, one directory per daemon that uses this data directory.
    #[must_use]
    pub fn indexes(&self) -> PathBuf {
        self.root.join("index")
    }

    /// Creates a directory below the root, accessible only to the owner.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn make_folder(&self, folder: &Path) -> io::Result<()> {
        create_private(folder)
    }
}

fn restrict_to_owner(root: &Path, found: &Metadata) -> Result<(), DataDirError> {
    let mode = found.mode() & 0o7777;
    let unusable = |source| DataDirError::Unusable { path: root.to_path_buf(), source };
    if !found.is_dir() {
        return Err(unusable(io::ErrorKind::NotADirectory.into()));
    }
    let user = rustix::process::geteuid().as_raw();
    // The owner of the directory could replace everything in it.
    if found.uid() != user {
        return Err(DataDirError::ForeignOwner { path: root.to_path_buf(), owner: found.uid(), user });
    }
    if mode & 0o077 == 0 {
        return Ok(());
    }
    // An empty directory, such as the mount point of a volume, is not in use by another program. A directory with the
    // sticky bit is shared by design and never accepted as empty.
    let is_unused = mode & 0o1000 == 0 && std::fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_none());
    if !(is_unused || DataDir::contains_own_files(root)) {
        return Err(DataDirError::Shared { path: root.to_path_buf(), mode });
    }
    std::fs::set_permissions(root, Permissions::from_mode(0o700)).map_err(unusable)
}

fn create_private(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut permissions = std::fs::metadata(folder)?.permissions();
    if permissions.mode() & 0o077 != 0 {
        permissions.set_mode(0o700);
        std::fs::set_permissions(folder, permissions)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn open_restricts_only_own_or_empty_directories() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("a/b");
        DataDir::open(&made).unwrap();
        assert_eq!(mode(&made), 0o700);

        let empty = folder.path().join("volume");
        std::fs::create_dir(&empty).unwrap();
        std::fs::set_permissions(&empty, Permissions::from_mode(0o755)).unwrap();
        DataDir::open(&empty).unwrap();
        assert_eq!(mode(&empty), 0o700);
        std::fs::set_permissions(&empty, Permissions::from_mode(0o1777)).unwrap();
        assert!(matches!(DataDir::open(&empty), Err(DataDirError::Shared { .. })));

        let shared = folder.path().join("srv");
        std::fs::create_dir(&shared).unwrap();
        std::fs::write(shared.join("index.html"), "of a web server").unwrap();
        std::fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        let refused = DataDir::open(&shared).unwrap_err();
        assert!(matches!(refused, DataDirError::Shared { mode: 0o755, .. }), "{refused}");
        assert_eq!(mode(&shared), 0o755);

        std::fs::write(shared.join(SECRET_KEY), "of an earlier start").unwrap();
        DataDir::open(&shared).unwrap();
        assert_eq!(mode(&shared), 0o700);

        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(DataDir::open(&file), Err(DataDirError::Unusable { .. })));

        let foreign = folder.path().join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        // Only root may change the owner of a directory.
        if std::os::unix::fs::chown(&foreign, Some(1), None).is_ok() {
            assert!(matches!(DataDir::open(&foreign), Err(DataDirError::ForeignOwner { owner: 1, .. })));
        }
    }
}
