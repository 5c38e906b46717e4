//! How the files follow the database, whatever moment the daemon is killed at.
//!
//! A restore unpacks into `restore-<id>/` in the data directory. Before the database is replaced
//! it writes `restore.json` with the database's id of that moment. A load gives the database a new
//! id in its own transaction, so at the next start the journal tells which side won:
//!
//! | journal | database id | then |
//! |---|---|---|
//! | none | any | folders of unfinished restores are removed |
//! | there | the journal's | the load did not happen: the journal and the folder are removed |
//! | there | another | the load happened: secrets and folders are put in place, then both are removed |
//!
//! Putting in place is repeatable: a folder moves only while it still waits, and what it replaces is
//! moved aside first. Something under `replaced/` proves that a folder was on its way; one that is
//! gone without that proof was taken away by somebody else, which is an error and no success.
//!
//! Whoever calls anything here holds the backup lock of the data directory, which replicas share.

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
const SEALED: &str = "secrets.json";

/// A secret as this daemon's vault seals it, for the time until the database was replaced.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SealedSecret {
    #[serde(flatten)]
    pub(super) name: SecretName,
    pub(super) sealed: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    /// The database's id before the load.
    database_id: String,
    /// Name of the folder that waits.
    folder: String,
}

/// A folder in the data directory that a restore prepares.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    root: PathBuf,
    name: String,
}

impl Waiting {
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

    /// Keeps sealed secrets for when the database was replaced.
    pub(super) fn write_secrets(&self, secrets: &[SealedSecret]) -> Result<(), BackupError> {
        let failed = || BackupError::files("the kept secrets");
        let text = serde_json::to_vec(secrets).map_err(|error| failed()(error.into()))?;
        fs::write(self.path().join(SEALED), text).map_err(failed())
    }

    pub(super) fn read_secrets(&self) -> Result<Vec<SealedSecret>, BackupError> {
        let failed = || BackupError::files("the kept secrets");
        match fs::read(self.path().join(SEALED)) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| failed()(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed()(error)),
        }
    }

    /// From here on the next start looks at the database to know what is right.
    pub(super) fn commit(&self, database_id: &str) -> Result<(), BackupError> {
        let failed = || BackupError::files("the restore's journal");
        for folder in FOLDERS {
            fs::create_dir_all(self.path().join(folder)).map_err(failed())?;
        }
        // Everything that was unpacked, before the journal that promises it.
        let folder = File::open(self.path()).map_err(failed())?;
        rustix::fs::syncfs(&folder).map_err(|error| failed()(error.into()))?;
        let journal = Journal { database_id: database_id.to_owned(), folder: self.name.clone() };
        let text = serde_json::to_vec(&journal).map_err(|error| failed()(error.into()))?;
        let path = journal_path(&self.root);
        let fresh = path.with_extension("json.new");
        let mut file = File::create(&fresh).map_err(failed())?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed())?;
        fs::rename(&fresh, &path).map_err(failed())?;
        sync_folder(&self.root)
    }

    /// Moves the folders to where they belong. May be called again after it was cut off.
    pub(super) fn put_in_place(&self) -> Result<(), BackupError> {
        let replaced = self.path().join(REPLACED);
        make_or_keep(&replaced).map_err(|error| self.missing("the folder of the restore", error))?;
        for folder in FOLDERS {
            let (new, place, old) = (self.path().join(folder), self.root.join(folder), replaced.join(folder));
            let failed = || BackupError::files(format!("the folder {folder}"));
            // Every folder waited here, see `commit`: one that does not was moved already.
            if !exists(&new) {
                if exists(&old) {
                    continue;
                }
                return Err(BackupError::FilesGone { folder: self.path() });
            }
            if !exists(&old) {
                if exists(&place) {
                    fs::rename(&place, &old).map_err(failed())?;
                } else {
                    fs::create_dir(&old).map_err(failed())?;
                }
            }
            fs::rename(&new, &place).map_err(failed())?;
        }
        sync_folder(&self.root)
    }

    fn missing(&self, what: &str, error: io::Error) -> BackupError {
        match error.kind() {
            io::ErrorKind::NotFound => BackupError::FilesGone { folder: self.path() },
            _ => BackupError::files(what)(error),
        }
    }

    /// Forgets the restore: the journal first, so that nothing half removed is ever put in place.
    pub(super) fn remove(self) -> Result<(), BackupError> {
        let failed = || BackupError::files("the restore's journal");
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

/// Never the folders above it: that they are there is part of what is checked.
fn make_or_keep(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

fn sync_folder(folder: &Path) -> Result<(), BackupError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(BackupError::files("the data directory"))
}

/// What is left behind is removed at the next start.
fn remove_folder(path: &Path) {
    if let Err(error) = remove_path(path) {
        tracing::warn!(path = %path.display(), %error, "a folder of a restore could not be removed");
    }
}

/// What a cut-off restore left, told by the database's present id.
pub(super) enum Leftover {
    Nothing,
    /// The load happened; the rest must follow.
    ToFinish(Waiting),
    /// The load did not happen.
    ToForget(Waiting),
}

pub(super) fn find_leftover(data_dir: &DataDir, database_id: &str) -> Result<Leftover, BackupError> {
    let path = journal_path(data_dir.root());
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Leftover::Nothing),
        Err(error) => return Err(BackupError::files("the restore's journal")(error)),
    };
    // It is renamed into its place when complete, so anything else is not ours to guess about.
    let journal: Journal =
        serde_json::from_slice(&text).map_err(|error| BackupError::files("the restore's journal")(error.into()))?;
    let waiting = Waiting::of(data_dir, &journal);
    Ok(if journal.database_id == database_id { Leftover::ToForget(waiting) } else { Leftover::ToFinish(waiting) })
}

/// Whether a restore left anything, or is under way.
pub(super) fn has_traces(data_dir: &DataDir) -> bool {
    exists(&journal_path(data_dir.root())) || waiting_folders(data_dir).next().is_some()
}

/// Removes folders that no journal speaks of.
pub(super) fn remove_abandoned(data_dir: &DataDir) {
    for folder in waiting_folders(data_dir) {
        remove_folder(&folder);
    }
}

fn waiting_folders(data_dir: &DataDir) -> impl Iterator<Item = PathBuf> {
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

    /// A data directory with an old state, and a restore that waits with a new one.
    fn prepared() -> (tempfile::TempDir, DataDir, Waiting) {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(&folder.path().join("data")).unwrap();
        for (name, text) in [("agents", "old"), ("recordings", "old")] {
            fs::create_dir(data_dir.root().join(name)).unwrap();
            fs::write(data_dir.root().join(name).join("file"), text).unwrap();
        }
        let waiting = Waiting::create(&data_dir, "1").unwrap();
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
    fn the_database_decides() {
        let (_folder, data_dir, waiting) = prepared();
        assert!(matches!(find_leftover(&data_dir, "a").unwrap(), Leftover::Nothing));
        waiting.commit("a").unwrap();
        assert!(matches!(find_leftover(&data_dir, "a").unwrap(), Leftover::ToForget(_)));
        let Leftover::ToFinish(found) = find_leftover(&data_dir, "b").unwrap() else { panic!("to finish") };
        found.put_in_place().unwrap();
        assert_eq!(state(&data_dir), new_state());
        found.remove().unwrap();
        assert!(matches!(find_leftover(&data_dir, "b").unwrap(), Leftover::Nothing));
        assert!(!waiting.path().exists());
        assert_eq!(state(&data_dir), new_state());
    }

    #[test]
    fn putting_in_place_can_be_cut_off_after_any_rename() {
        // The renames of an undisturbed run, done one by one and then left.
        let renames: [(&str, &str); 6] = [
            ("agents", "restore-1/replaced/agents"),
            ("restore-1/agents", "agents"),
            // Nothing is replaced here: a folder says so.
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
            waiting.put_in_place().unwrap();
            assert_eq!(state(&data_dir), new_state(), "after {done} renames");
            waiting.put_in_place().unwrap();
            assert_eq!(state(&data_dir), new_state(), "and once more");
        }
    }

    #[test]
    fn files_that_were_taken_away_are_not_taken_for_moved() {
        for taken in ["", "agents", "avatars"] {
            let (_folder, data_dir, waiting) = prepared();
            waiting.commit("a").unwrap();
            fs::remove_dir_all(waiting.path().join(taken)).unwrap();
            let outcome = waiting.put_in_place();
            assert!(matches!(outcome, Err(BackupError::FilesGone { .. })), "{taken}: {outcome:?}");
            assert!(matches!(find_leftover(&data_dir, "b").unwrap(), Leftover::ToFinish(_)));
        }
    }

    #[test]
    fn abandoned_folders_go_and_nothing_else() {
        let (_folder, data_dir, waiting) = prepared();
        assert!(has_traces(&data_dir));
        remove_abandoned(&data_dir);
        assert!(!has_traces(&data_dir));
        assert!(!waiting.path().exists());
        assert_eq!(state(&data_dir), [Some("old".to_owned()), None, Some("old".to_owned())]);
    }
}
