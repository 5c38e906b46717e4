//! The folders that agents work in: `agents/<svc_name>/`, readable by the owner alone.
//!
//! A name can pass from a deleted agent to a new one while a purge is still under way, on several
//! replicas over one data directory. So whoever gives a name to a folder or takes it away holds a
//! lock on a file there, and looks at the rows again while holding it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::model::{AgentId, is_svc_name};
use crate::ground::DataDir;

/// No svc_name begins with a dot.
const LOCK: &str = ".lock";
const TRASH: &str = ".trash";

#[derive(Debug, Clone)]
pub(super) struct Workspaces {
    data_dir: Arc<DataDir>,
    /// Taken before the lock on the file, so that one thread at most waits for that.
    in_line: Arc<Mutex<()>>,
}

/// Folders get or lose their names only while this lives.
#[derive(Debug)]
pub(super) struct NamesLock {
    // In this order: the file's lock is given back first.
    _file: File,
    _in_line: OwnedMutexGuard<()>,
}

impl Workspaces {
    pub(super) fn new(data_dir: Arc<DataDir>) -> Self {
        Self { data_dir, in_line: Arc::default() }
    }

    /// What a message calls the folder; for anything else there is [`folder`](Self::folder).
    pub(super) fn named(&self, svc_name: &str) -> PathBuf {
        self.data_dir.agents().join(svc_name)
    }

    /// The folder of a name, which must be one: a row may have been written by somebody else.
    fn folder(&self, svc_name: &str) -> io::Result<PathBuf> {
        if is_svc_name(svc_name) { Ok(self.named(svc_name)) } else { Err(refused("this is no name of an agent")) }
    }

    fn trash(&self, agent_id: &str) -> io::Result<PathBuf> {
        if AgentId::is_well_formed(agent_id) {
            Ok(self.data_dir.agents().join(TRASH).join(agent_id))
        } else {
            Err(refused("this is no id of an agent"))
        }
    }

    /// Waits for the lock on a thread that may block.
    pub(super) async fn lock(&self) -> io::Result<NamesLock> {
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
    pub(super) fn ensure(&self, svc_name: &str) -> io::Result<bool> {
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
    pub(super) fn forget(&self, svc_name: &str, _lock: &NamesLock) {
        if let Err(error) = self.folder(svc_name).and_then(std::fs::remove_dir) {
            tracing::debug!(%error, "a folder that was made in vain stays");
        }
    }

    /// Takes the name from a deleted agent's folder. Doing it twice is fine.
    pub(super) fn move_to_trash(&self, svc_name: &str, agent_id: &str, _lock: &NamesLock) -> io::Result<()> {
        let (folder, trash) = (self.folder(svc_name)?, self.trash(agent_id)?);
        self.data_dir.make_folder(&self.data_dir.agents().join(TRASH))?;
        match std::fs::rename(folder, trash) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Deletes what a deleted agent left, up to about `limit` files; answers whether more is left.
    pub(super) async fn empty_trash(&self, agent_id: &str, limit: usize) -> io::Result<bool> {
        let folder = self.trash(agent_id)?;
        blocking(move || {
            let mut left = limit;
            remove_some(&folder, &mut left).map(|is_gone| !is_gone)
        })
        .await
    }
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Paths longer than this are made shorter before the kernel refuses them (PATH_MAX is 4096).
const LONG_PATH_BYTES: usize = 2_048;

/// Removes a folder from its leaves up, until `left` is used up. Links are removed, not followed.
/// Answers whether all of it is gone.
fn remove_some(folder: &Path, left: &mut usize) -> io::Result<bool> {
    match std::fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return std::fs::remove_file(folder).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    }
    // Without recursion: an agent may nest folders deeper than our stack would carry.
    let mut path = folder.to_path_buf();
    while *left > 0 {
        let mut below = None;
        for entry in list(&path)? {
            if *left == 0 {
                return Ok(false);
            }
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                below = Some(entry.path());
                break;
            }
            *left -= 1;
            std::fs::remove_file(entry.path())?;
        }
        match below {
            Some(next) if next.as_os_str().len() > LONG_PATH_BYTES => {
                std::fs::rename(&next, free_name(folder))?;
                path = folder.to_path_buf();
            }
            Some(next) => path = next,
            None => {
                *left -= usize::from(*left > 0);
                std::fs::remove_dir(&path)?;
                if path == folder {
                    return Ok(true);
                }
                path.pop();
            }
        }
    }
    Ok(false)
}

/// The entries of a folder, also of one that was closed to its owner.
fn list(folder: &Path) -> io::Result<std::fs::ReadDir> {
    let refused = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
        outcome => return outcome,
    };
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).map_err(|_| refused)?;
    std::fs::read_dir(folder)
}

fn free_name(folder: &Path) -> PathBuf {
    let mut number = 0_u64;
    loop {
        let name = folder.join(format!("deep-{number}"));
        if !name.exists() {
            return name;
        }
        number += 1;
    }
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
        let workspaces = Workspaces::new(Arc::new(DataDir::open(&root.path().join("data")).unwrap()));
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

    #[test]
    fn deep_and_wide_folders_go_in_batches_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("keep"), "x").unwrap();
        let trash = root.path().join("trash");
        let mut deep = trash.clone();
        for _ in 0..200 {
            deep.push("d");
        }
        std::fs::create_dir_all(&deep).unwrap();
        for number in 0..50 {
            std::fs::write(trash.join(format!("f{number}")), "x").unwrap();
        }
        std::os::unix::fs::symlink(&outside, deep.join("link")).unwrap();
        // Put together from two parts, because no path can name the whole.
        let part = |root: &Path| (0..10).fold(root.to_path_buf(), |path, _| path.join("n".repeat(200)));
        let (upper, lower) = (part(&trash), part(&root.path().join("lower")));
        std::fs::create_dir_all(&upper).unwrap();
        std::fs::create_dir_all(&lower).unwrap();
        std::fs::write(lower.join("file"), "x").unwrap();
        std::fs::rename(root.path().join("lower"), upper.join("lower")).unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        assert!(remove_some(&link, &mut 40).unwrap() && !link.exists());
        let mut rounds = 0;
        while !remove_some(&trash, &mut 40).unwrap() {
            rounds += 1;
            assert!(rounds < 20);
        }
        assert!(rounds > 3);
        assert!(!trash.exists());
        assert!(outside.join("keep").exists());
    }
}
