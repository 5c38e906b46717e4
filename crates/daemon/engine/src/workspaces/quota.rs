//! Size and quota of workspaces.
//!
//! Measuring a workspace requires a walk, which takes about a second if it is large. The size is therefore cached and
//! increased with each write. It is measured again when the cache expires, after code has run, after a removal, and
//! before a write is refused. While code runs in a workspace, its size is not cached.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_sandbox::WorkspaceBounds;
use agentd_sandbox::folder::{Closed, Size, Space, measure};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::WorkspaceError;
use super::workspace::{FolderId, Workspace};

/// Maximum age of a cached size: another replica or the owner may write as well.
const CACHE_TTL: Duration = Duration::from_secs(30);
/// Maximum number of cached workspaces.
const MAX_CACHED_WORKSPACES: usize = 1_000;
/// Minimum size of a file on disk.
pub(super) const BLOCK_BYTES: u64 = 4_096;

/// Current limits and the cached sizes of workspaces. Cheap to clone.
#[derive(Clone)]
pub struct WorkspaceQuota(Arc<Inner>);

struct Inner {
    bounds: Box<dyn Fn() -> WorkspaceBounds + Send + Sync>,
    workspaces: Mutex<HashMap<PathBuf, WorkspaceState>>,
}

/// State of one workspace.
#[derive(Debug, Default)]
struct WorkspaceState {
    count: Option<Count>,
    /// Total bytes written by the daemon, even if deleted since.
    written: u64,
    /// Number of programs running in it.
    running: usize,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    held: WorkspaceSize,
    since: Instant,
    /// Identity of the folder, which may be replaced: by an agent of the same name, or by a restore.
    folder: (u64, u64),
}

/// Content of a workspace, including folders but not the root folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkspaceSize {
    pub files: u64,
    pub bytes: u64,
}

/// Size and limits of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub held: WorkspaceSize,
    pub bounds: WorkspaceBounds,
}

/// Growth of a workspace by a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub(super) files: u64,
    pub(super) bytes: i64,
}

/// Marks a program as running in a workspace until dropped.
#[derive(Debug)]
pub(crate) struct RunningProgram {
    quota: WorkspaceQuota,
    workspace: PathBuf,
}

impl std::fmt::Debug for WorkspaceQuota {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkspaceQuota").field("workspaces", &self.0.workspaces.lock().len()).finish_non_exhaustive()
    }
}

impl WorkspaceQuota {
    /// `bounds` returns the current limits.
    pub(crate) fn new(bounds: impl Fn() -> WorkspaceBounds + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { bounds: Box::new(bounds), workspaces: Mutex::default() }))
    }

    pub(super) fn bounds(&self) -> WorkspaceBounds {
        (self.0.bounds)()
    }

    /// Marks a program as running in a workspace.
    pub(crate) fn track_program(&self, workspace: &Path) -> RunningProgram {
        self.change(workspace, |known| known.running += 1);
        RunningProgram { quota: self.clone(), workspace: workspace.to_path_buf() }
    }

    fn change(&self, workspace: &Path, change: impl FnOnce(&mut WorkspaceState)) {
        let mut workspaces = self.0.workspaces.lock();
        if workspaces.len() >= MAX_CACHED_WORKSPACES && !workspaces.contains_key(workspace) {
            workspaces.retain(|_, known| known.running > 0);
        }
        change(workspaces.entry(workspace.to_path_buf()).or_default());
    }

    #[allow(clippy::disallowed_methods, reason = "how old a count of real files is, which no test moves")]
    pub(super) fn cached_size(&self, folder_id: &FolderId) -> Option<WorkspaceSize> {
        let workspaces = self.0.workspaces.lock();
        let known = workspaces.get(&folder_id.path).filter(|known| known.running == 0)?;
        let count = known.count.filter(|count| count.folder == folder_id.identity)?;
        (count.since.elapsed() < CACHE_TTL).then_some(count.held)
    }

    #[allow(clippy::disallowed_methods, reason = "how old a count of real files is, which no test moves")]
    fn cache_size(&self, folder_id: &FolderId, held: WorkspaceSize) {
        let count = Count { held, since: Instant::now(), folder: folder_id.identity };
        self.change(&folder_id.path, |known| known.count = Some(count));
    }

    /// Records written data.
    pub(super) fn record_growth(&self, workspace: &Path, growth: Growth) {
        let Growth { files, bytes } = growth;
        self.change(workspace, |known| {
            let change = bytes.unsigned_abs();
            // Rounded up to the size on disk: overestimating is safer than underestimating.
            let added = if bytes >= 0 { change.next_multiple_of(BLOCK_BYTES) } else { 0 };
            known.written = known.written.saturating_add(added);
            if let Some(Count { held, .. }) = &mut known.count {
                held.files = held.files.saturating_add(files);
                held.bytes = if bytes >= 0 {
                    held.bytes.saturating_add(added)
                } else {
                    held.bytes.saturating_sub(change - change % BLOCK_BYTES)
                };
            }
        });
    }

    pub(super) fn written(&self, workspace: &Path) -> u64 {
        self.0.workspaces.lock().get(workspace).map_or(0, |known| known.written)
    }

    /// Discards the cached size after a removal.
    pub(super) fn invalidate(&self, workspace: &Path) {
        self.change(workspace, |known| known.count = None);
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.quota.change(&self.workspace, |known| {
            known.running = known.running.saturating_sub(1);
            known.count = None;
        });
    }
}

impl Workspace {
    /// Returns the size and the limits.
    ///
    /// # Errors
    /// The workspace cannot be read.
    pub fn usage(&self, quota: &WorkspaceQuota) -> Result<Usage, WorkspaceError> {
        let bounds = quota.bounds();
        let held = match quota.cached_size(&self.folder_id) {
            Some(held) => held,
            None => self.count(quota)?,
        };
        Ok(Usage { held, bounds })
    }

    /// Rejects growth that exceeds the limits or would fill the disk. Changes that shrink the workspace are always
    /// accepted.
    pub(super) fn require_capacity(&self, quota: &WorkspaceQuota, more: Growth) -> Result<(), WorkspaceError> {
        if more.bytes <= 0 && more.files == 0 {
            return Ok(());
        }
        require_disk_space(&self.root, u64::try_from(more.bytes).unwrap_or(0))?;
        let bounds = quota.bounds();
        let fits = |held: WorkspaceSize| {
            if more.files > 0 && held.files.saturating_add(more.files) > bounds.files {
                return Err(WorkspaceError::TooManyFiles { limit: bounds.files });
            }
            if more.bytes > 0 && held.bytes.saturating_add_signed(more.bytes) > bounds.bytes {
                return Err(WorkspaceError::Full { limit_mb: bounds.bytes >> 20 });
            }
            Ok(())
        };
        match quota.cached_size(&self.folder_id).map(&fits) {
            Some(Ok(())) => Ok(()),
            _ => fits(self.count(quota)?),
        }
    }

    /// Measures the workspace by a walk; stops at twice the maximum number of files.
    pub(super) fn count(&self, quota: &WorkspaceQuota) -> Result<WorkspaceSize, WorkspaceError> {
        let failed = |source: Errno| WorkspaceError::Io { path: ".".to_owned(), source: source.into() };
        let max_files = quota.bounds().files.saturating_mul(2);
        let Size { files, bytes, .. } =
            measure(&self.root, Closed::Open, |size| size.files > max_files).map_err(failed)?;
        let held = WorkspaceSize { files, bytes };
        quota.cache_size(&self.folder_id, held);
        Ok(held)
    }
}

/// Rejects a write if the reserve of the disk is reached, or would be with `more` bytes.
pub(super) fn require_disk_space(on: impl AsFd, more: u64) -> Result<(), WorkspaceError> {
    // A file system that does not report its free space is not checked.
    let Ok(space) = Space::at(on) else { return Ok(()) };
    let then = Space { free_bytes: space.free_bytes.saturating_sub(more), ..space };
    then.shortage().map_or(Ok(()), |shortage| Err(WorkspaceError::DiskShort(shortage)))
}

#[cfg(test)]
mod tests {
    use super::super::RelativePath;
    use super::*;

    const BOUNDS: WorkspaceBounds = WorkspaceBounds { bytes: 1 << 20, files: 10 };

    fn write(workspace: &Workspace, quota: &WorkspaceQuota, name: &str, bytes: usize) -> Result<(), WorkspaceError> {
        let path = RelativePath::parse_file(name).unwrap();
        workspace.write(&path, &vec![b'x'; bytes], "mark", quota).map(drop)
    }

    #[test]
    fn writes_update_the_cached_size() {
        let folder = tempfile::tempdir().unwrap();
        let (quota, workspace) = (WorkspaceQuota::new(|| BOUNDS), Workspace::open(folder.path()).unwrap());
        write(&workspace, &quota, "a/b/one", 5_000).unwrap();
        let cached_size = quota.cached_size(&workspace.folder_id).unwrap();
        assert_eq!(cached_size.files, 3, "with the folders that were made");
        assert!((5_000..50_000).contains(&cached_size.bytes), "{cached_size:?}");
        // Written by hand, without the daemon: only detected before a write is refused.
        for number in 0..5 {
            std::fs::write(folder.path().join(format!("by_hand{number}")), "x").unwrap();
        }
        write(&workspace, &quota, "two", 1).unwrap();
        assert_eq!(quota.cached_size(&workspace.folder_id).unwrap().files, 4);
        for number in 0..5 {
            std::fs::remove_file(folder.path().join(format!("by_hand{number}"))).unwrap();
        }
        for number in 0..6 {
            write(&workspace, &quota, &format!("more{number}"), 1).unwrap();
        }
        std::fs::remove_file(folder.path().join("more0")).unwrap();
        write(&workspace, &quota, "instead", 1).unwrap();
        let refused = write(&workspace, &quota, "too_much", 1).unwrap_err();
        assert!(matches!(refused, WorkspaceError::TooManyFiles { limit: 10 }), "{refused}");
        assert_eq!(
            workspace.usage(&quota).unwrap(),
            Usage { held: quota.cached_size(&workspace.folder_id).unwrap(), bounds: BOUNDS }
        );
    }

    #[test]
    fn size_is_not_cached_while_a_program_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (quota, workspace) = (WorkspaceQuota::new(|| BOUNDS), Workspace::open(folder.path()).unwrap());
        write(&workspace, &quota, "one", 1).unwrap();
        let (first, second) = (quota.track_program(folder.path()), quota.track_program(folder.path()));
        drop(first);
        assert_eq!(quota.cached_size(&workspace.folder_id), None);
        std::fs::write(folder.path().join("made"), "x").unwrap();
        assert_eq!(workspace.usage(&quota).unwrap().held.files, 2);
        std::fs::write(folder.path().join("made_later"), "x").unwrap();
        drop(second);
        assert_eq!(workspace.usage(&quota).unwrap().held.files, 3);
    }

    #[test]
    fn number_of_cached_workspaces_is_bounded() {
        let quota = WorkspaceQuota::new(|| BOUNDS);
        let running = quota.track_program(Path::new("/runs"));
        for number in 0..MAX_CACHED_WORKSPACES * 2 {
            quota.invalidate(Path::new(&format!("/{number}")));
        }
        assert!(quota.0.workspaces.lock().len() <= MAX_CACHED_WORKSPACES);
        assert_eq!(quota.0.workspaces.lock()[Path::new("/runs")].running, 1);
        drop(running);
    }
}
