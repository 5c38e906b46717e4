//! The folders that agents work in: `agents/<svc_name>/`, readable by the owner alone.
//!
//! A name can pass from a deleted agent to a new one while a purge is still under way, on several
//! replicas over one data directory. So whoever gives a name to a folder or takes it away holds a
//! lock on a file there, and looks at the rows again while holding it.
//!
//! Code may have closed its folder to everybody, the daemon included, which then opens it again.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use agentd_base::id::is_well_formed;
use agentd_core::runtime::DataDir;
use agentd_sandbox::folder::{Need, open_folder, remove};
use rustix::fs::{CWD, FlockOperation, flock};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// No svc_name begins with a dot.
const LOCK: &str = ".lock";
const TRASH: &str = ".trash";

#[derive(Debug, Clone)]
pub(crate) struct WorkspaceFolders {
    data_dir: Arc<DataDir>,
    /// Taken before the lock on the file, so that one thread at most waits for that.
    in_line: Arc<Mutex<()>>,
}

/// Folders get or lose their names only while this lives.
#[derive(Debug)]
pub(crate) struct NamesLock {
    // In this order: the file's lock is given back first.
    _file: File,
    _in_line: OwnedMutexGuard<()>,
}

impl WorkspaceFolders {
    pub(crate) fn new(data_dir: Arc<DataDir>) -> Self {
        Self { data_dir, in_line: Arc::default() }
    }

    /// What a message calls the folder; for anything else there is [`folder`](Self::folder).
    pub(crate) fn named(&self, svc_name: &str) -> PathBuf {
        self.data_dir.agents().join(svc_name)
    }

    /// The folder of a name, which must be one: a row may have been written by somebody else.
    fn folder(&self, svc_name: &str) -> io::Result<PathBuf> {
        if is_workspace_name(svc_name) { Ok(self.named(svc_name)) } else { Err(refused("this is no name of an agent")) }
    }

    fn trash(&self, agent_id: &str) -> io::Result<PathBuf> {
        if is_well_formed("agent", agent_id) {
            Ok(self.data_dir.agents().join(TRASH).join(agent_id))
        } else {
            Err(refused("this is no id of an agent"))
        }
    }

    /// Waits for the lock on a thread that may block.
    pub(crate) async fn lock(&self) -> io::Result<NamesLock> {
        let in_line = Arc::clone(&self.in_line).lock_owned().await;
        let (data_dir, path) = (self.data_dir.clone(), self.data_dir.agents().join(LOCK));
        blocking(move || {
            data_dir.make_folder(&data_dir.agents())?;
            let file = File::options().create(true).append(true).mode(0o600).open(path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(NamesLock { _file: file, _in_line: in_line })
        })
        .await
    }

    /// Makes the folder where it is missing; answers whether it was.
    pub(crate) fn ensure(&self, svc_name: &str) -> io::Result<bool> {
        let folder = self.folder(svc_name)?;
        let was_missing = match std::fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => false,
            // A link would be followed to wherever it leads.
            Ok(_) => return Err(refused("something else than a folder stands there; remove it")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        if was_missing {
            self.data_dir.make_folder(&folder)?;
        }
        Ok(was_missing)
    }

    /// Takes back an [`ensure`](Self::ensure) that led to nothing. What holds files stays.
    pub(crate) fn forget(&self, svc_name: &str, _lock: &NamesLock) {
        if let Err(error) = self.folder(svc_name).and_then(std::fs::remove_dir) {
            tracing::debug!(%error, "a folder that was made in vain stays");
        }
    }

    /// Takes the name from a deleted agent's folder. Doing it twice is fine.
    pub(crate) fn move_to_trash(&self, svc_name: &str, agent_id: &str, _lock: &NamesLock) -> io::Result<()> {
        let (folder, trash) = (self.folder(svc_name)?, self.trash(agent_id)?);
        self.data_dir.make_folder(&self.data_dir.agents().join(TRASH))?;
        // Only who may write in a folder may give it another parent.
        drop(open_folder(CWD, folder.as_path(), Need::Change));
        match std::fs::rename(folder, trash) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Deletes what a deleted agent left, up to about `limit` files; answers whether more is left.
    pub(crate) async fn empty_trash(&self, agent_id: &str, limit: usize) -> io::Result<bool> {
        let name = self.trash(agent_id)?.file_name().map(|name| CString::new(name.as_bytes()));
        let name = name.ok_or(io::ErrorKind::InvalidInput)??;
        let trash = self.data_dir.agents().join(TRASH);
        blocking(move || match open_folder(CWD, trash.as_path(), Need::Change) {
            Ok(trash) => remove(&trash, &name, &mut { limit }).map(|is_gone| !is_gone),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        })
        .await
    }
}

/// `[a-z0-9][a-z0-9_-]{0,62}`: safe as a folder's name, in a URL and in a metric.
pub(crate) fn is_workspace_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= 63
        && bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first.is_ascii_digit())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-')
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_name_and_no_id_leads_out_of_the_folder_of_agents() {
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
        assert!(workspaces.ensure("scout").is_err(), "a link is no workspace");
        assert!(evil.join("keep").exists());
    }
}
