//! Restore journal: keeps files consistent with the database even if the daemon is killed at any point.
//!
//! A restore unpacks into `restore-<id>/` in the data directory. Before the database is replaced, it writes
//! `restore.json` with the current database id. A load gives the database a new id in its own transaction, so the next
//! start can tell from the journal which state is valid:
//!
//! | journal | database id | then |
//! |---|---|---|
//! | none | any | folders of unfinished restores are removed |
//! | present | the journal's | the load did not happen: the journal and the folder are removed |
//! | present | another | the load happened: secrets and folders are put in place, then both are removed |
//!
//! Putting folders in place is idempotent: a folder is moved only while it is still in the restore folder, and the
//! folder it replaces is moved aside first. An entry under `replaced/` proves that a folder was being moved. A folder
//! that is missing without this proof was removed by another process, which is an error.
//!
//! All functions require the backup lock of the data directory, which replicas share.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentd_core::runtime::DataDir;
use agentd_sandbox::folder::remove_path;
use serde::{Deserialize, Serialize};

use super::error::BackupError;
use super::model::{FOLDERS, SecretName};

const PREFIX: &str = "restore-";
const REPLACED: &str = "replaced";
const SECRETS_FILE: &str = "secrets.json";

/// Secret encrypted by this daemon's vault, stored until the database is replaced.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SealedSecret {
    #[serde(flatten)]
    pub(super) name: SecretName,
    pub(super) sealed: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    /// Database id before the load.
    database_id: String,
    /// Name of the prepared folder.
    folder: String,
}

/// Folder in the data directory that a restore prepares.
#[derive(Debug, Clone)]
pub(super) struct PreparedRestore {
    root: PathBuf,
    name: String,
}

impl PreparedRestore {
    pub(super) fn create(data_dir: &DataDir, id: &str) -> Result<Self, BackupError> {
        let waiting = Self { root: data_dir.root().to_path_buf(), name: format!("{PREFIX}{id}") };
        data_dir.make_folder(&waiting.path()).map_err(BackupError::files("the folder of the restore"))?;
        Ok(waiting)
    }

    fn of(data_dir: &DataDir, journal: &Journal) -> Self {
        Self { root: data_dir.root().to_path_buf(), name: journal.folder.clone() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// Stores encrypted secrets until the database is replaced.
    pub(super) fn write_secrets(&self, secrets: &[SealedSecret]) -> Result<(), BackupError> {
        let failed = || BackupError::files("the retained secrets");
        let text = serde_json::to_vec(secrets).map_err(|error| failed()(error.into()))?;
        fs::write(self.path().join(SECRETS_FILE), text).map_err(failed())
    }

    pub(super) fn read_secrets(&self) -> Result<Vec<SealedSecret>, BackupError> {
        let failed = || BackupError::files("the retained secrets");
        match fs::read(self.path().join(SECRETS_FILE)) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| failed()(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed()(error)),
        }
    }

    /// Commits the restore: from here on, the next start decides by the database id.
    pub(super) fn commit(&self, database_id: &str) -> Result<(), BackupError> {
        let failed = || BackupError::files("the journal of the restore");
        for folder in FOLDERS {
            fs::create_dir_all(self.path().join(folder)).map_err(failed())?;
        }
        // Syncs all unpacked files before the journal that refers to them.
        let folder = File::open(self.path()).map_err(failed())?;
        rustix::fs::syncfs(&folder).map_err(|error| failed()(error.into()))?;
        let journal = Journal { database_id: database_id.to_owned(), folder: self.name.clone() };
        let text = serde_json::to_vec(&journal).map_err(|error| failed()(error.into()))?;
        let path = journal_path(&self.root);
        let temporary = path.with_extension("json.new");
        let mut file = File::create(&temporary).map_err(failed())?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed())?;
        fs::rename(&temporary, &path).map_err(failed())?;
        sync_folder(&self.root)
    }

    /// Moves the folders to their final locations. Idempotent, so it can be repeated after an interruption.
    pub(super) fn move_into_place(&self) -> Result<(), BackupError> {
        let replaced = self.path().join(REPLACED);
        create_dir_if_missing(&replaced).map_err(|error| self.missing("the folder of the restore", error))?;
        for folder in FOLDERS {
            let (new, target, old) = (self.path().join(folder), self.root.join(folder), replaced.join(folder));
            let failed = || BackupError::files(format!("the folder {folder}"));
            // `commit` created all folders here, so a missing one was already moved.
            if !exists(&new) {
                if exists(&old) {
                    continue;
                }
                return Err(BackupError::FilesGone { folder: self.path() });
            }
            if !exists(&old) {
                if exists(&target) {
                    fs::rename(&target, &old).map_err(failed())?;
                } else {
                    fs::create_dir(&old).map_err(failed())?;
                }
            }
            fs::rename(&new, &target).map_err(failed())?;
        }
        sync_folder(&self.root)
    }

    fn missing(&self, what: &str, error: io::Error) -> BackupError {
        match error.kind() {
            io::ErrorKind::NotFound => BackupError::FilesGone { folder: self.path() },
            _ => BackupError::files(what)(error),
        }
    }

    /// Removes the restore: the journal first, so that a partially removed folder is never put in place.
    pub(super) fn remove(self) -> Result<(), BackupError> {
        let failed = || BackupError::files("the journal of the restore");
        match fs::remove_file(journal_path(&self.root)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed()(error)),
            _ => {}
        }
        sync_folder(&self.root)?;
        remove_folder(&self.path());
        Ok(())
    }
}

fn journal_path(root: &Path) -> PathBuf {
    root.join("restore.json")
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Creates a folder but not its parents, whose existence is part of the check.
fn create_dir_if_missing(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

fn sync_folder(folder: &Path) -> Result<(), BackupError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(BackupError::files("the data directory"))
}

/// Removes a folder; a remaining one is removed at the next start.
fn remove_folder(path: &Path) {
    if let Err(error) = remove_path(path) {
        tracing::warn!(path = %path.display(), %error, "failed to remove restore folder");
    }
}

/// State left by an interrupted restore, determined by the current database id.
pub(super) enum Leftover {
    Nothing,
    /// The database was replaced; the remaining steps must be completed.
    Finish(PreparedRestore),
    /// The database was not replaced.
    Discard(PreparedRestore),
}

pub(super) fn find_leftover(data_dir: &DataDir, database_id: &str) -> Result<Leftover, BackupError> {
    let path = journal_path(data_dir.root());
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Leftover::Nothing),
        Err(error) => return Err(BackupError::files("the journal of the restore")(error)),
    };
    // The journal is renamed into place when complete, so any other content is an error.
    let journal: Journal = serde_json::from_slice(&text)
        .map_err(|error| BackupError::files("the journal of the restore")(error.into()))?;
    let waiting = PreparedRestore::of(data_dir, &journal);
    Ok(if journal.database_id == database_id { Leftover::Discard(waiting) } else { Leftover::Finish(waiting) })
}

/// Returns whether a restore is running or left anything behind.
pub(super) fn has_traces(data_dir: &DataDir) -> bool {
    exists(&journal_path(data_dir.root())) || restore_folders(data_dir).next().is_some()
}

/// Removes restore folders without a journal.
pub(super) fn remove_abandoned(data_dir: &DataDir) {
    for folder in restore_folders(data_dir) {
        remove_folder(&folder);
    }
}

fn restore_folders(data_dir: &DataDir) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(data_dir.root()).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
        })
        .map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a data directory with an old state, and a prepared restore with a new one.
    fn prepared() -> (tempfile::TempDir, DataDir, PreparedRestore) {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(&folder.path().join("data")).unwrap();
        for (name, text) in [("agents", "old"), ("recordings", "old")] {
            fs::create_dir(data_dir.root().join(name)).unwrap();
            fs::write(data_dir.root().join(name).join("file"), text).unwrap();
        }
        let waiting = PreparedRestore::create(&data_dir, "1").unwrap();
        for name in ["agents", "avatars"] {
            fs::create_dir(waiting.path().join(name)).unwrap();
            fs::write(waiting.path().join(name).join("file"), "new").unwrap();
        }
        (folder, data_dir, waiting)
    }

    fn state(data_dir: &DataDir) -> Vec<Option<String>> {
        FOLDERS.iter().map(|name| fs::read_to_string(data_dir.root().join(name).join("file")).ok()).collect()
    }

    fn new_state() -> Vec<Option<String>> {
        vec![Some("new".to_owned()), Some("new".to_owned()), None]
    }

    #[test]
    fn database_id_decides_between_finish_and_discard() {
        let (_folder, data_dir, waiting) = prepared();
        assert!(matches!(find_leftover(&data_dir, "a").unwrap(), Leftover::Nothing));
        waiting.commit("a").unwrap();
        assert!(matches!(find_leftover(&data_dir, "a").unwrap(), Leftover::Discard(_)));
        let Leftover::Finish(found) = find_leftover(&data_dir, "b").unwrap() else {
            panic!("expected Leftover::Finish")
        };
        found.move_into_place().unwrap();
        assert_eq!(state(&data_dir), new_state());
        found.remove().unwrap();
        assert!(matches!(find_leftover(&data_dir, "b").unwrap(), Leftover::Nothing));
        assert!(!waiting.path().exists());
        assert_eq!(state(&data_dir), new_state());
    }

    #[test]
    fn put_in_place_resumes_after_any_rename() {
        // Performs the first renames of an undisturbed run, then resumes.
        let renames: [(&str, &str); 6] = [
            ("agents", "restore-1/replaced/agents"),
            ("restore-1/agents", "agents"),
            // Nothing is replaced here; an empty folder records it.
            ("empty", "restore-1/replaced/avatars"),
            ("restore-1/avatars", "avatars"),
            ("recordings", "restore-1/replaced/recordings"),
            ("restore-1/recordings", "recordings"),
        ];
        for done in 0..=renames.len() {
            let (_folder, data_dir, waiting) = prepared();
            waiting.commit("a").unwrap();
            fs::create_dir_all(waiting.path().join(REPLACED)).unwrap();
            fs::create_dir(data_dir.root().join("empty")).unwrap();
            for (from, to) in renames.iter().take(done) {
                fs::rename(data_dir.root().join(from), data_dir.root().join(to)).unwrap();
            }
            waiting.move_into_place().unwrap();
            assert_eq!(state(&data_dir), new_state(), "after {done} renames");
            waiting.move_into_place().unwrap();
            assert_eq!(state(&data_dir), new_state(), "and once more");
        }
    }

    #[test]
    fn missing_files_are_not_mistaken_for_moved_ones() {
        for taken in ["", "agents", "avatars"] {
            let (_folder, data_dir, waiting) = prepared();
            waiting.commit("a").unwrap();
            fs::remove_dir_all(waiting.path().join(taken)).unwrap();
            let outcome = waiting.move_into_place();
            assert!(matches!(outcome, Err(BackupError::FilesGone { .. })), "{taken}: {outcome:?}");
            assert!(matches!(find_leftover(&data_dir, "b").unwrap(), Leftover::Finish(_)));
        }
    }

    #[test]
    fn only_abandoned_folders_are_removed() {
        let (_folder, data_dir, waiting) = prepared();
        assert!(has_traces(&data_dir));
        remove_abandoned(&data_dir);
        assert!(!has_traces(&data_dir));
        assert!(!waiting.path().exists());
        assert_eq!(state(&data_dir), [Some("old".to_owned()), None, Some("old".to_owned())]);
    }
}
