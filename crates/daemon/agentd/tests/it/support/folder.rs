//! Folders of tests, of which nothing stays. A daemon that was killed may leave children that still write for a
//! moment, and a run of the tests that was killed removes nothing at all: the next one does.

use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use tempfile::TempDir;

const PREFIX: &str = "agentd-test-";
/// Children of a killed daemon are gone long before that.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// Removed when it is dropped, whoever still writes to it.
#[derive(Debug)]
pub struct TestFolder(TempDir);

impl TestFolder {
    pub fn create() -> Self {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| sweep(&std::env::temp_dir()));
        Self::in_folder(&std::env::temp_dir(), std::process::id())
    }

    fn in_folder(folder: &Path, process: u32) -> Self {
        let prefix = format!("{PREFIX}{process}-");
        Self(tempfile::Builder::new().prefix(&prefix).tempdir_in(folder).expect("a temporary folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            match std::fs::remove_dir_all(self.path()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => std::thread::sleep(BETWEEN_TRIES),
                _ => return,
            }
        }
    }
}

/// Removes the folders of processes that are gone.
fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another run may be at it as well.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a process that is gone has to be made first")]
fn folders_of_tests_that_were_killed_are_removed() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut child = std::process::Command::new("true").spawn().expect("a process");
    child.wait().expect("its end");
    let gone = TestFolder::in_folder(place.path(), child.id());
    std::fs::write(gone.path().join("file"), "left").expect("a file");
    let here = TestFolder::in_folder(place.path(), std::process::id());
    let other = place.path().join("agentd-tests");
    std::fs::create_dir(&other).expect("a folder");
    sweep(place.path());
    assert!(!gone.path().exists());
    assert!(here.path().exists() && other.exists());
}
