//! The data directory: everything that the daemon keeps is below it.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Paths inside the data directory. All of it is readable by the owner alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// Opens the directory, making it (mode 0700) when it is not there.
    ///
    /// # Errors
    /// The directory cannot be made or is no directory.
    pub fn open(root: &Path) -> io::Result<Self> {
        make_private(root)?;
        let root = root.canonicalize()?;
        Ok(Self { root })
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join("agentd.db")
    }

    /// The private socket that the command line speaks to a running daemon through.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.root.join("agentd.sock")
    }

    /// Held by the daemon that the socket belongs to.
    #[must_use]
    pub fn socket_lock(&self) -> PathBuf {
        self.root.join("agentd.sock.lock")
    }

    /// Held by whoever makes a backup, restores one, or finishes a restore that was cut off.
    #[must_use]
    pub fn backup_lock(&self) -> PathBuf {
        self.root.join("backup.lock")
    }

    #[must_use]
    pub fn secret_key(&self) -> PathBuf {
        self.root.join("secret.key")
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

    /// GGUF files; `agent.local_model` names one of them.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// Makes a folder below the root, readable by the owner alone.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn make_folder(&self, folder: &Path) -> io::Result<()> {
        make_private(folder)
    }
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
