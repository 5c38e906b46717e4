//! What workspaces hold, and may hold.
//!
//! A workspace is counted by walking it, which takes a second where it is large. So the count is kept
//! and grows with what is written here; it is made anew after a while, when code has run, when
//! something was removed, and before anything is refused. While code runs in a workspace, nothing is
//! kept of it.

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
use super::workspace::{Place, Workspace};

/// Others may write too: another replica, the owner by hand.
const COUNT_LASTS: Duration = Duration::from_secs(30);
/// Workspaces of which a count is kept.
const MOST_COUNTS: usize = 1_000;
/// What a file takes on the disk, at least.
pub(super) const BLOCK: u64 = 4_096;

/// The bounds in force, and what is known of each workspace. Cheap to clone.
#[derive(Clone)]
pub struct Room(Arc<Inner>);

struct Inner {
    bounds: Box<dyn Fn() -> WorkspaceBounds + Send + Sync>,
    workspaces: Mutex<HashMap<PathBuf, Known>>,
}

/// What is known of one workspace.
#[derive(Debug, Default)]
struct Known {
    count: Option<Count>,
    /// What the daemon itself wrote there, whatever became of it.
    written: u64,
    /// Programs that work in it now.
    running: usize,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    held: Held,
    since: Instant,
    /// Another may take its place: an agent of the same name, what a backup held.
    folder: (u64, u64),
}

/// What a workspace holds, folders included; the folder itself does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    pub files: u64,
    pub bytes: u64,
}

/// What a workspace holds and may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub held: Held,
    pub bounds: WorkspaceBounds,
}

/// What a change adds to a workspace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub(super) files: u64,
    pub(super) bytes: i64,
}

/// A program works in a workspace while this lives.
#[derive(Debug)]
pub(crate) struct Running {
    room: Room,
    workspace: PathBuf,
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Room").field("workspaces", &self.0.workspaces.lock().len()).finish_non_exhaustive()
    }
}

impl Room {
    /// `bounds` answers those that are in force when it is asked.
    pub(crate) fn new(bounds: impl Fn() -> WorkspaceBounds + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { bounds: Box::new(bounds), workspaces: Mutex::default() }))
    }

    pub(super) fn bounds(&self) -> WorkspaceBounds {
        (self.0.bounds)()
    }

    /// For as long as a program may change a workspace.
    pub(crate) fn runs_in(&self, workspace: &Path) -> Running {
        self.change(workspace, |known| known.running += 1);
        Running { room: self.clone(), workspace: workspace.to_path_buf() }
    }

    fn change(&self, workspace: &Path, change: impl FnOnce(&mut Known)) {
        let mut workspaces = self.0.workspaces.lock();
        if workspaces.len() >= MOST_COUNTS && !workspaces.contains_key(workspace) {
            workspaces.retain(|_, known| known.running > 0);
        }
        change(workspaces.entry(workspace.to_path_buf()).or_default());
    }

    #[allow(clippy::disallowed_methods, reason = "how old a count of real files is, which no test moves")]
    pub(super) fn kept(&self, place: &Place) -> Option<Held> {
        let workspaces = self.0.workspaces.lock();
        let known = workspaces.get(&place.path).filter(|known| known.running == 0)?;
        let count = known.count.filter(|count| count.folder == place.identity)?;
        (count.since.elapsed() < COUNT_LASTS).then_some(count.held)
    }

    #[allow(clippy::disallowed_methods, reason = "how old a count of real files is, which no test moves")]
    fn keep(&self, place: &Place, held: Held) {
        let count = Count { held, since: Instant::now(), folder: place.identity };
        self.change(&place.path, |known| known.count = Some(count));
    }

    /// Notes what was written.
    pub(super) fn grew(&self, workspace: &Path, growth: Growth) {
        let Growth { files, bytes } = growth;
        self.change(workspace, |known| {
            let change = bytes.unsigned_abs();
            // By what it is on the disk at most; rather too much is kept than too little.
            let added = if bytes >= 0 { change.next_multiple_of(BLOCK) } else { 0 };
            known.written = known.written.saturating_add(added);
            if let Some(Count { held, .. }) = &mut known.count {
                held.files = held.files.saturating_add(files);
                held.bytes = if bytes >= 0 {
                    held.bytes.saturating_add(added)
                } else {
                    held.bytes.saturating_sub(change - change % BLOCK)
                };
            }
        });
    }

    pub(super) fn written(&self, workspace: &Path) -> u64 {
        self.0.workspaces.lock().get(workspace).map_or(0, |known| known.written)
    }

    /// Something was removed: what is left is counted when that is asked next.
    pub(super) fn shrank(&self, workspace: &Path) {
        self.change(workspace, |known| known.count = None);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.room.change(&self.workspace, |known| {
            known.running = known.running.saturating_sub(1);
            known.count = None;
        });
    }
}

impl Workspace {
    /// What it holds and may hold.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn usage(&self, room: &Room) -> Result<Usage, WorkspaceError> {
        let bounds = room.bounds();
        let held = match room.kept(&self.place) {
            Some(held) => held,
            None => self.count(room)?,
        };
        Ok(Usage { held, bounds })
    }

    /// Refuses what would add `more` to a workspace that is full by then, or to a disk that nearly is. What makes it
    /// smaller is welcome however full it is.
    pub(super) fn require_room(&self, room: &Room, more: Growth) -> Result<(), WorkspaceError> {
        if more.bytes <= 0 && more.files == 0 {
            return Ok(());
        }
        require_disk(&self.root, u64::try_from(more.bytes).unwrap_or(0))?;
        let bounds = room.bounds();
        let fits = |held: Held| {
            if more.files > 0 && held.files.saturating_add(more.files) > bounds.files {
                return Err(WorkspaceError::TooManyFiles { limit: bounds.files });
            }
            if more.bytes > 0 && held.bytes.saturating_add_signed(more.bytes) > bounds.bytes {
                return Err(WorkspaceError::Full { limit_mb: bounds.bytes >> 20 });
            }
            Ok(())
        };
        match room.kept(&self.place).map(&fits) {
            Some(Ok(())) => Ok(()),
            _ => fits(self.count(room)?),
        }
    }

    /// Walks it. What it holds beyond twice its bounds is not looked at.
    pub(super) fn count(&self, room: &Room) -> Result<Held, WorkspaceError> {
        let failed = |source: Errno| WorkspaceError::Io { path: ".".to_owned(), source: source.into() };
        let most = room.bounds().files.saturating_mul(2);
        let Size { files, bytes, .. } = measure(&self.root, Closed::Open, |size| size.files > most).map_err(failed)?;
        let held = Held { files, bytes };
        room.keep(&self.place, held);
        Ok(held)
    }
}

/// Refuses while the last of the disk is left, or would be with so many bytes more.
pub(super) fn require_disk(on: impl AsFd, more: u64) -> Result<(), WorkspaceError> {
    // A file system that does not say what it has left is not held to it.
    let Ok(space) = Space::at(on) else { return Ok(()) };
    let then = Space { free_bytes: space.free_bytes.saturating_sub(more), ..space };
    then.shortage().map_or(Ok(()), |shortage| Err(WorkspaceError::DiskShort(shortage)))
}

#[cfg(test)]
mod tests {
    use super::super::RelativePath;
    use super::*;

    const BOUNDS: WorkspaceBounds = WorkspaceBounds { bytes: 1 << 20, files: 10 };

    fn write(workspace: &Workspace, room: &Room, name: &str, bytes: usize) -> Result<(), WorkspaceError> {
        let path = RelativePath::parse_file(name).unwrap();
        workspace.write(&path, &vec![b'x'; bytes], "mark", room).map(drop)
    }

    #[test]
    fn what_is_written_is_counted_without_another_walk() {
        let folder = tempfile::tempdir().unwrap();
        let (room, workspace) = (Room::new(|| BOUNDS), Workspace::open(folder.path()).unwrap());
        write(&workspace, &room, "a/b/one", 5_000).unwrap();
        let kept = room.kept(&workspace.place).unwrap();
        assert_eq!(kept.files, 3, "with the folders that were made");
        assert!((5_000..50_000).contains(&kept.bytes), "{kept:?}");
        // By hand, which nobody told of: seen before something is refused, and not before.
        for number in 0..5 {
            std::fs::write(folder.path().join(format!("by_hand{number}")), "x").unwrap();
        }
        write(&workspace, &room, "two", 1).unwrap();
        assert_eq!(room.kept(&workspace.place).unwrap().files, 4);
        for number in 0..5 {
            std::fs::remove_file(folder.path().join(format!("by_hand{number}"))).unwrap();
        }
        for number in 0..6 {
            write(&workspace, &room, &format!("more{number}"), 1).unwrap();
        }
        std::fs::remove_file(folder.path().join("more0")).unwrap();
        write(&workspace, &room, "instead", 1).unwrap();
        let refused = write(&workspace, &room, "too_much", 1).unwrap_err();
        assert!(matches!(refused, WorkspaceError::TooManyFiles { limit: 10 }), "{refused}");
        assert_eq!(
            workspace.usage(&room).unwrap(),
            Usage { held: room.kept(&workspace.place).unwrap(), bounds: BOUNDS }
        );
    }

    #[test]
    fn nothing_is_kept_while_a_program_runs_and_of_what_it_left() {
        let folder = tempfile::tempdir().unwrap();
        let (room, workspace) = (Room::new(|| BOUNDS), Workspace::open(folder.path()).unwrap());
        write(&workspace, &room, "one", 1).unwrap();
        let (first, second) = (room.runs_in(folder.path()), room.runs_in(folder.path()));
        drop(first);
        assert_eq!(room.kept(&workspace.place), None);
        std::fs::write(folder.path().join("made"), "x").unwrap();
        assert_eq!(workspace.usage(&room).unwrap().held.files, 2);
        std::fs::write(folder.path().join("made_later"), "x").unwrap();
        drop(second);
        assert_eq!(workspace.usage(&room).unwrap().held.files, 3);
    }

    #[test]
    fn of_a_thousand_workspaces_something_is_known_and_not_of_more() {
        let room = Room::new(|| BOUNDS);
        let running = room.runs_in(Path::new("/runs"));
        for number in 0..MOST_COUNTS * 2 {
            room.shrank(Path::new(&format!("/{number}")));
        }
        assert!(room.0.workspaces.lock().len() <= MOST_COUNTS);
        assert_eq!(room.0.workspaces.lock()[Path::new("/runs")].running, 1);
        drop(running);
    }
}
