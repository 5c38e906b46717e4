//! Size of a folder, counted at most once in a while.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Minimum age of a count before it is repeated.
const COUNT_TTL: Duration = Duration::from_secs(60);
/// Minimum ratio of the pause to the duration of a count.
const PAUSE_FACTOR: u32 = 50;
/// Maximum time to wait for the first count.
const FIRST_COUNT_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum number of entries; the size of a larger folder is unknown.
const MAX_ENTRIES: u64 = 10_000_000;

#[derive(Debug, Default)]
struct State {
    bytes: Option<u64>,
    counted_at: Option<Instant>,
    took: Duration,
    is_counting: bool,
}

/// Cached size of a folder. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct FolderSize {
    root: Arc<Path>,
    state: Arc<Mutex<State>>,
}

impl FolderSize {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.into(), state: Arc::default() }
    }

    /// Returns the last count, and starts another one in the background if it is outdated; `None` until the first count
    /// is complete.
    pub(super) async fn bytes(&self) -> Option<u64> {
        let is_due = {
            let mut state = self.state.lock();
            let pause = COUNT_TTL.max(state.took.saturating_mul(PAUSE_FACTOR));
            let is_fresh = state.counted_at.is_some_and(|at| at.elapsed() < pause);
            let is_due = !state.is_counting && !is_fresh;
            state.is_counting |= is_due;
            is_due
        };
        if is_due {
            let this = self.clone();
            let counting = tokio::task::spawn_blocking(move || this.count());
            // Counting continues after the timeout.
            let _ = tokio::time::timeout(FIRST_COUNT_TIMEOUT, counting).await;
        }
        self.state.lock().bytes
    }

    fn count(&self) {
        let started = Instant::now();
        let bytes = measure_folder(&self.root, MAX_ENTRIES);
        *self.state.lock() =
            State { bytes, counted_at: Some(Instant::now()), took: started.elapsed(), is_counting: false };
    }
}

/// Returns the disk usage of a folder. Symbolic links are not followed, and hard-linked files count once.
fn measure_folder(root: &Path, limit: u64) -> Option<u64> {
    let (mut bytes, mut entries, mut linked) = (0u64, 0u64, HashSet::new());
    let mut folders: Vec<PathBuf> = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let found = match std::fs::read_dir(&folder) {
            Ok(found) => found,
            // A subfolder may be deleted during the count; the root may not.
            Err(_) if folder != root => continue,
            Err(_) => return None,
        };
        for entry in found.flatten() {
            entries += 1;
            if entries > limit {
                return None;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.nlink() > 1 && !linked.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            // `stat(2)` counts blocks of 512 bytes on every file system.
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_size_counts_hard_links_once_and_skips_symlinks() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("file"), vec![7u8; 1 << 20]).unwrap();
        let once = measure_folder(folder.path(), 100).unwrap();
        assert!(once >= 1 << 20, "{once}");
        std::fs::hard_link(inner.join("file"), folder.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("everything")).unwrap();
        let twice = measure_folder(folder.path(), 100).unwrap();
        assert!(twice < once + (1 << 19), "{twice} after {once}");
        assert_eq!(measure_folder(folder.path(), 3), None);
        assert_eq!(measure_folder(&folder.path().join("gone"), 100), None);
    }

    #[tokio::test]
    async fn recent_count_is_reused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), vec![7u8; 4096]).unwrap();
        let size = FolderSize::new(folder.path());
        while size.bytes().await.is_none() {}
        let first = size.bytes().await;
        std::fs::write(folder.path().join("more"), vec![7u8; 1 << 20]).unwrap();
        assert_eq!(size.bytes().await, first);
    }
}
