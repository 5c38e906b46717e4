//! Workspace folders of agents: `agents/<svc_name>/`, readable by the owner only.
//!
//! A name can pass from a deleted agent to a new one while a purge is still running, on several replicas that share a
//! data directory. Operations that assign or free the name of a folder therefore hold a file lock and check the rows
//! again while holding it.
//!
//! Code may have removed all permissions of its folder; the daemon then restores them.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use agentd_base::id::is_well_formed;
use agentd_core::runtime::DataDir;
use agentd_sandbox::folder::{FolderAccess, open_folder, remove};
use rustix::fs::{CWD, FlockOperation, flock};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Names with a leading dot cannot collide with a svc_name.
const LOCK: &str = ".lock";
const TRASH: &str = ".trash";

#[derive(Debug, Clone)]
pub(crate) struct WorkspaceFolders {
    data_dir: Arc<DataDir>,
    /// Acquired before the file lock, so that at most one thread blocks on it.
    thread_lock: Arc<Mutex<()>>,
}

/// Guard for assigning and freeing names of folders.
#[derive(Debug)]
pub(crate) struct NamesLock {
    // Declaration order matters: the file lock is released first.
    _file: File,
    _thread_lock: OwnedMutexGuard<()>,
}

impl WorkspaceFolders {
    pub(crate) fn new(data_dir: Arc<DataDir>) -> Self {
        Self { data_dir, thread_lock: Arc::default() }
    }

    /// Returns the path for messages; use [`folder`](Self::folder) for everything else.
    pub(crate) fn path_of(&self, svc_name: &str) -> PathBuf {
        self.data_dir.agents().join(svc_name)
    }

    /// Returns the folder of a name. The name is validated because a row may have been tampered with.
    fn folder(&self, svc_name: &str) -> io::Result<PathBuf> {
        if is_workspace_name(svc_name) {
            Ok(self.path_of(svc_name))
        } else {
            Err(invalid_input("not a valid agent name"))
        }
    }

    fn trash(&self, agent_id: &str) -> io::Result<PathBuf> {
        if is_well_formed("agent", agent_id) {
            Ok(self.data_dir.agents().join(TRASH).join(agent_id))
        } else {
            Err(invalid_input("not a valid agent id"))
        }
    }

    /// Acquires the lock on a blocking thread.
    pub(crate) async fn lock(&self) -> io::Result<NamesLock> {
        let thread_lock = Arc::clone(&self.thread_lock).lock_owned().await;
        let (data_dir, path) = (self.data_dir.clone(), self.data_dir.agents().join(LOCK));
        blocking(move || {
            data_dir.make_folder(&data_dir.agents())?;
            let file = File::options().create(true).append(true).mode(0o600).open(path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(NamesLock { _file: file, _thread_lock: thread_lock })
        })
        .await
    }

    /// Creates the folder if it is missing; returns whether it was.
    pub(crate) fn ensure(&self, svc_name: &str) -> io::Result<bool> {
        let folder = self.folder(svc_name)?;
        let was_missing = match std::fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => false,
            // A link could lead anywhere.
            Ok(_) => return Err(invalid_input("the path exists but is not a folder; remove it")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        if was_missing {
            self.data_dir.make_folder(&folder)?;
        }
        Ok(was_missing)
    }

    /// Reverts an [`ensure`](Self::ensure) after a failure. A folder with files stays.
    pub(crate) fn remove_if_empty(&self, svc_name: &str, _lock: &NamesLock) {
        if let Err(error) = self.folder(svc_name).and_then(std::fs::remove_dir) {
            tracing::debug!(%error, "failed to remove an unused workspace folder");
        }
    }

    /// Moves a deleted agent's folder to the trash. Idempotent.
    pub(crate) fn move_to_trash(&self, svc_name: &str, agent_id: &str, _lock: &NamesLock) -> io::Result<()> {
        let (folder, trash) = (self.folder(svc_name)?, self.trash(agent_id)?);
        self.data_dir.make_folder(&self.data_dir.agents().join(TRASH))?;
        // Moving a folder to another parent requires write permission on it.
        drop(open_folder(CWD, folder.as_path(), FolderAccess::Modify));
        match std::fs::rename(folder, trash) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Deletes files of a deleted agent, up to about `limit`; returns whether more remain.
    pub(crate) async fn empty_trash(&self, agent_id: &str, limit: usize) -> io::Result<bool> {
        let name = self.trash(agent_id)?.file_name().map(|name| CString::new(name.as_bytes()));
        let name = name.ok_or(io::ErrorKind::InvalidInput)??;
        let trash = self.data_dir.agents().join(TRASH);
        blocking(move || match open_folder(CWD, trash.as_path(), FolderAccess::Modify) {
            Ok(trash) => remove(&trash, &name, &mut { limit }).map(|is_gone| !is_gone),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        })
        .await
    }
}

/// Whether a name matches `[a-z0-9][a-z0-9_-]{0,62}`: safe as a folder name, in a URL and in a metric.
pub(crate) fn is_workspace_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= 63
        && bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first.is_ascii_digit())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-')
}

fn invalid_input(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_and_ids_cannot_leave_the_agents_folder() {
        let root = tempfile::tempdir().unwrap();
        let evil = root.path().join("evil");
        std::fs::create_dir(&evil).unwrap();
        std::fs::write(evil.join("keep"), "x").unwrap();
        let workspaces = WorkspaceFolders::new(Arc::new(DataDir::open(&root.path().join("data")).unwrap()));
        let lock = workspaces.lock().await.unwrap();
        let (id, absolute) = ("agent_01arz3ndektsv4rrffq69g5fav", evil.to_str().unwrap());
        for name in ["../../evil", absolute, "", ".", "..", ".trash", "a/../../../evil"] {
            assert!(workspaces.ensure(name).is_err(), "{name}");
            assert!(workspaces.move_to_trash(name, id, &lock).is_err(), "{name}");
            assert!(workspaces.move_to_trash("scout", name, &lock).is_err(), "{name}");
            assert!(workspaces.empty_trash(name, 100).await.is_err(), "{name}");
        }
        std::os::unix::fs::symlink(&evil, root.path().join("data/agents/scout")).unwrap();
        assert!(workspaces.ensure("scout").is_err(), "a link is not a workspace");
        assert!(evil.join("keep").exists());
    }
}
