//! Temporary folders of tests that are always removed. A killed daemon may leave children that still write for a
//! moment.
//! Folders left by a killed test run are removed by the next run.

use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use tempfile::TempDir;

const PREFIX: &str = "agentd-test-";
/// Allows two seconds, which is longer than the children of a killed daemon live.
const MAX_ATTEMPTS: u32 = 100;
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A temporary folder that is removed on drop, even if a process still writes to it.
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
        for _ in 0..MAX_ATTEMPTS {
            match std::fs::remove_dir_all(self.path()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => std::thread::sleep(RETRY_INTERVAL),
                _ => return,
            }
        }
    }
}

/// Removes the folders of processes that no longer exist.
fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another test run may remove it concurrently.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test needs the id of a process that has exited")]
fn folders_of_killed_test_runs_are_removed() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let mut child = std::process::Command::new("true").spawn().expect("a process");
    child.wait().expect("its end");
    let stale = TestFolder::in_folder(root.path(), child.id());
    std::fs::write(stale.path().join("file"), "left").expect("a file");
    let current = TestFolder::in_folder(root.path(), std::process::id());
    let other = root.path().join("agentd-tests");
    std::fs::create_dir(&other).expect("a folder");
    sweep(root.path());
    assert!(!stale.path().exists());
    assert!(current.path().exists() && other.exists());
}
