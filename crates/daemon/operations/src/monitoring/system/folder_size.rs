//! How much lies in a folder, counted at most now and then.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A count that is younger is not done again.
const FRESH: Duration = Duration::from_secs(60);
/// Counting takes at most one part in so many of the time.
const SHARE: u32 = 50;
/// Somebody who asks waits as long for the first count.
const PATIENCE: Duration = Duration::from_millis(250);
/// A folder with more is not counted to its end, and its size is not known.
const MAX_ENTRIES: u64 = 10_000_000;

#[derive(Debug, Default)]
struct State {
    bytes: Option<u64>,
    counted_at: Option<Instant>,
    took: Duration,
    is_counting: bool,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct FolderSize {
    root: Arc<Path>,
    state: Arc<Mutex<State>>,
}

impl FolderSize {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.into(), state: Arc::default() }
    }

    /// As it was counted last. Counts anew beside the answer when that is long ago; `None` until the first count is
    /// done.
    pub(super) async fn bytes(&self) -> Option<u64> {
        let is_due = {
            let mut state = self.state.lock();
            let pause = FRESH.max(state.took.saturating_mul(SHARE));
            let is_fresh = state.counted_at.is_some_and(|at| at.elapsed() < pause);
            let is_due = !state.is_counting && !is_fresh;
            state.is_counting |= is_due;
            is_due
        };
        if is_due {
            let this = self.clone();
            let counting = tokio::task::spawn_blocking(move || this.count());
            // The count goes on when nobody waits for it any more.
            let _ = tokio::time::timeout(PATIENCE, counting).await;
        }
        self.state.lock().bytes
    }

    fn count(&self) {
        let begun = Instant::now();
        let bytes = bytes_below(&self.root, MAX_ENTRIES);
        *self.state.lock() =
            State { bytes, counted_at: Some(Instant::now()), took: begun.elapsed(), is_counting: false };
    }
}

/// What a folder and all in it takes on the disk. Links are not followed, and a file with several names counts once.
fn bytes_below(root: &Path, limit: u64) -> Option<u64> {
    let (mut bytes, mut entries, mut linked) = (0u64, 0u64, HashSet::new());
    let mut folders: Vec<PathBuf> = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let found = match std::fs::read_dir(&folder) {
            Ok(found) => found,
            // It went while it was looked at, which anything but the root may.
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
            // `stat(2)` counts in these, whatever the file system's own blocks are.
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_as_large_as_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("file"), vec![7u8; 1 << 20]).unwrap();
        let once = bytes_below(folder.path(), 100).unwrap();
        assert!(once >= 1 << 20, "{once}");
        std::fs::hard_link(inner.join("file"), folder.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("everything")).unwrap();
        let twice = bytes_below(folder.path(), 100).unwrap();
        assert!(twice < once + (1 << 19), "{twice} after {once}");
        assert_eq!(bytes_below(folder.path(), 3), None);
        assert_eq!(bytes_below(&folder.path().join("gone"), 100), None);
    }

    #[tokio::test]
    async fn what_was_just_counted_is_not_counted_again() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), vec![7u8; 4096]).unwrap();
        let size = FolderSize::new(folder.path());
        while size.bytes().await.is_none() {}
        let first = size.bytes().await;
        std::fs::write(folder.path().join("more"), vec![7u8; 1 << 20]).unwrap();
        assert_eq!(size.bytes().await, first);
    }
}
