//! The data directory: everything that the daemon keeps is below it.

use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const DATABASE: &str = "agentd.db";
/// The store's own.
const DATABASE_LOCK: &str = "agentd.lock";
const SECRET_KEY: &str = "secret.key";
const SOCKET_LOCK: &str = "agentd.sock.lock";

/// Why a directory is not taken for the data directory.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("the data directory {} cannot be used; check that it may be written, or name another with SVC_DATA_DIR", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error(
        "the directory {} is open to others (mode {mode:o}) and holds nothing of this program, so it may belong to another one; name a directory of its own, such as SVC_DATA_DIR={}, or close this one with `chmod 700 {}`",
        .path.display(), .path.join("agentd").display(), .path.display()
    )]
    Shared { path: PathBuf, mode: u32 },
    #[error(
        "the data directory {} belongs to user {owner} and not to user {user}, who runs this; run it as user {owner}, or change the owner with `chown -R {user} {}`",
        .path.display(), .path.display()
    )]
    ForeignOwner { path: PathBuf, owner: u32, user: u32 },
}

/// Paths inside the data directory. All of it is readable by the owner alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// Opens the directory, making it (mode 0700) when it is not there. One that others may look
    /// into is closed to them only if it is ours: a directory that other programs use stays as it is.
    ///
    /// # Errors
    /// The directory cannot be made, is no directory, or is one that others use.
    pub fn open(root: &Path) -> Result<Self, DataDirError> {
        let failed = |source| DataDirError::Unusable { path: root.to_path_buf(), source };
        match std::fs::metadata(root) {
            Ok(found) => close_to_others(root, &found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_private(root).map_err(failed)?,
            Err(error) => return Err(failed(error)),
        }
        let root = root.canonicalize().map_err(failed)?;
        Ok(Self { root })
    }

    /// Whether this program has kept its files there before.
    #[must_use]
    pub fn is_ours(root: &Path) -> bool {
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

    /// The private socket that the command line speaks to a running daemon through.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.root.join("agentd.sock")
    }

    /// Held by the daemon that the socket belongs to.
    #[must_use]
    pub fn socket_lock(&self) -> PathBuf {
        self.root.join(SOCKET_LOCK)
    }

    /// Held by whoever makes a backup, restores one, or finishes a restore that was cut off.
    #[must_use]
    pub fn backup_lock(&self) -> PathBuf {
        self.root.join("backup.lock")
    }

    #[must_use]
    pub fn secret_key(&self) -> PathBuf {
        self.root.join(SECRET_KEY)
    }

    /// Workspaces, one folder an agent.
    #[must_use]
    pub fn agents(&self) -> PathBuf {
        self.root.join("agents")
    }

    #[must_use]
    pub fn avatars(&self) -> PathBuf {
        self.root.join("avatars")
    }

    /// What was recorded in the browser, and what its pages sent.
    #[must_use]
    pub fn recordings(&self) -> PathBuf {
        self.root.join("recordings")
    }

    /// Backups that the daemon keeps itself, and the store's copies from before migrations.
    #[must_use]
    pub fn backups(&self) -> PathBuf {
        self.root.join("backups")
    }

    /// GGUF files; `agent.local_model` names one of them.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// Search indexes, a folder for each daemon that uses this directory.
    #[must_use]
    pub fn indexes(&self) -> PathBuf {
        self.root.join("index")
    }

    /// Makes a folder below the root, readable by the owner alone.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn make_folder(&self, folder: &Path) -> io::Result<()> {
        make_private(folder)
    }
}

fn close_to_others(root: &Path, found: &Metadata) -> Result<(), DataDirError> {
    let mode = found.mode() & 0o7777;
    let unusable = |source| DataDirError::Unusable { path: root.to_path_buf(), source };
    if !found.is_dir() {
        return Err(unusable(io::ErrorKind::NotADirectory.into()));
    }
    let user = rustix::process::geteuid().as_raw();
    // Its owner could replace everything in it.
    if found.uid() != user {
        return Err(DataDirError::ForeignOwner { path: root.to_path_buf(), owner: found.uid(), user });
    }
    if mode & 0o077 == 0 {
        return Ok(());
    }
    // An empty one, such as the mount point of a volume, can be nobody else's yet. Others may write
    // into one that is sticky, so that is never ours.
    let is_free = mode & 0o1000 == 0 && std::fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_none());
    if !(is_free || DataDir::is_ours(root)) {
        return Err(DataDirError::Shared { path: root.to_path_buf(), mode });
    }
    std::fs::set_permissions(root, Permissions::from_mode(0o700)).map_err(unusable)
}

fn make_private(folder: &Path) -> io::Result<()> {
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
    fn closes_what_is_ours_and_nothing_else() {
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
        // Only root may give a folder away.
        if std::os::unix::fs::chown(&foreign, Some(1), None).is_ok() {
            assert!(matches!(DataDir::open(&foreign), Err(DataDirError::ForeignOwner { owner: 1, .. })));
        }
    }
}
