//! How much of the disks a run took, and what its workspace holds.
//!
//! Two questions about the disks, because each has a blind spot. What the file systems lost is cheap
//! to ask and sees everything, but also what others use and free meanwhile. What files there are that
//! this run made takes a walk, which is made only when much was written or many files were made since
//! the last one, and does not see how much older files grew. Neither counts unless the processes
//! wrote as much: a program may rewrite one file as often as it likes. The first question is asked of
//! a few minutes at a time, or every server that runs for weeks would one day be guilty of what
//! others use.
//!
//! What a workspace holds is counted whole (`workspace`). Folders that are closed are opened for that before the program
//! starts and when it has ended; what it hides meanwhile shows in the files that the file system lost.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, StatxTimestamp};

use super::tree::Stat;
use super::workspace::Workspace;
use crate::folder::{Closed, Space, survey};
use crate::plan::{Bounds, Report};
use crate::{Tier, WorkspaceBounds};

/// Files that one walk looks at; of a larger directory counts what the file system lost.
const MAX_WALK: u64 = 300_000;
/// For how long what file systems lost is held against the run.
const WINDOW: Duration = Duration::from_secs(600);
/// A process that is starting or ending may refuse once or twice; one that refuses for this many
/// looks has something to hide.
const REFUSALS: u32 = 10;
/// What a run may have taken when the last of a disk is left.
const TAKEN_BYTES: u64 = 1 << 20;
const TAKEN_FILES: u64 = 64;

pub(crate) struct Disk {
    bounds: Bounds,
    watched: Vec<PathBuf>,
    /// Each file system once, with what was free at the start.
    free_before: Vec<(PathBuf, Free)>,
    started: (i64, u32),
    /// Opened early: later this process may not open its own files any more.
    own_io: Option<File>,
    window_since: Instant,
    written_before: u64,
    written_at_walk: u64,
    lost: Free,
    lost_files_at_walk: u64,
    refusals: BTreeMap<i32, u32>,
    workspace: Option<Workspace>,
}

/// What a file system has left, or lost.
#[derive(Debug, Clone, Copy, Default)]
struct Free {
    bytes: u64,
    files: u64,
}

/// What a run made.
#[derive(Debug, Default)]
struct Made {
    files: u64,
    bytes: u64,
    /// Something could not be looked at.
    is_partial: bool,
}

impl Disk {
    pub(crate) fn start(
        watched: &[PathBuf],
        bounds: Bounds,
        workspace: Option<&(PathBuf, WorkspaceBounds)>,
        tier: Tier,
    ) -> io::Result<Self> {
        let mut free_before: Vec<(PathBuf, Free)> = Vec::new();
        let mut devices = Vec::new();
        for path in watched {
            let device = std::fs::metadata(path)?.dev();
            if !devices.contains(&device) {
                devices.push(device);
                free_before.push((path.clone(), free(path)?));
            }
        }
        Ok(Self {
            bounds,
            watched: watched.to_vec(),
            free_before,
            started: kernel_time(),
            own_io: File::open("/proc/self/io").ok(),
            window_since: Instant::now(),
            written_before: 0,
            written_at_walk: 0,
            lost: Free::default(),
            lost_files_at_walk: 0,
            refusals: BTreeMap::new(),
            workspace: workspace.map(|(path, limit)| Workspace::start(path, *limit, tier)).transpose()?,
        })
    }

    /// The bound that is broken, if one is. `busy` is set when much changed since the last look.
    pub(crate) fn measure(&mut self, processes: &[Stat], busy: &mut bool) -> Option<Report> {
        let mut lost = Free::default();
        let mut is_short = false;
        for (path, before) in &self.free_before {
            // A file system that does not answer has lost nothing that is known.
            let (now, space) = look(path).unwrap_or((*before, Space::default()));
            // Who took nothing is not to blame that there is little left.
            let took = before.bytes.saturating_sub(now.bytes) > TAKEN_BYTES
                || before.files.saturating_sub(now.files) > TAKEN_FILES;
            is_short |= took && space.shortage().is_some();
            lost.bytes = lost.bytes.max(before.bytes.saturating_sub(now.bytes));
            lost.files = lost.files.max(before.files.saturating_sub(now.files));
        }
        *busy |= lost.bytes.abs_diff(self.lost.bytes) > 1 << 20 || lost.files.abs_diff(self.lost.files) > 64;
        self.lost = lost;
        if is_short {
            return Some(Report::DiskShort);
        }
        let written = self.written_bytes(processes);
        let is_refused = self.refusals.values().any(|looks| *looks >= REFUSALS);
        let bound = self.bounds.disk_bytes;
        if lost.bytes > bound && (written.saturating_sub(self.written_before) > bound || is_refused) {
            return Some(Report::DiskLimit);
        }
        if let Some(broken) = self.workspace.as_mut().and_then(Workspace::look_when_due) {
            return Some(broken);
        }
        if self.window_since.elapsed() > WINDOW {
            self.window_since = Instant::now();
            self.written_before = written;
            self.lost_files_at_walk = 0;
            for (path, before) in &mut self.free_before {
                *before = free(path).unwrap_or(*before);
            }
        }
        let wrote_much = written > bound && written.saturating_sub(self.written_at_walk) >= bound / 2;
        let made_many = lost.files > self.bounds.files
            && lost.files.saturating_sub(self.lost_files_at_walk) >= self.bounds.files / 8;
        if !wrote_much && !made_many {
            return None;
        }
        let made = self.made();
        if wrote_much {
            self.written_at_walk = written;
            if made.bytes + deleted_bytes(processes) > bound {
                return Some(Report::DiskLimit);
            }
        }
        if made_many {
            self.lost_files_at_walk = lost.files;
        }
        (made.files > self.bounds.files || (made_many && made.is_partial)).then_some(Report::FileLimit)
    }

    /// Whether the workspace holds too many files. Cheap unless that may be so.
    pub(crate) fn check_workspace_files(&mut self) -> Option<Report> {
        self.workspace.as_mut().and_then(Workspace::check_files)
    }

    /// How long the next check of the workspace may wait.
    pub(crate) fn longest_wait(&self) -> Option<Duration> {
        self.workspace.as_ref().map(Workspace::longest_wait)
    }

    /// What the workspace holds when the program has ended.
    pub(crate) fn measure_workspace(&mut self) -> Option<Report> {
        self.workspace.as_mut().and_then(Workspace::look_at_end)
    }

    /// Written to disks by the processes inside, those that ended too. Who refuses to be asked is
    /// remembered.
    fn written_bytes(&mut self, processes: &[Stat]) -> u64 {
        let own = self.own_io.as_ref().and_then(|file| {
            let mut text = [0; 512];
            let length = file.read_at(&mut text, 0).ok()?;
            written(std::str::from_utf8(text.get(..length)?).ok()?)
        });
        let mut sum = own.unwrap_or(0);
        let before = std::mem::take(&mut self.refusals);
        for process in processes {
            match std::fs::read_to_string(format!("/proc/{}/io", process.pid)) {
                Ok(text) => sum = sum.saturating_add(written(&text).unwrap_or(0)),
                Err(error) if has_ended(&error) => {}
                Err(_) => {
                    self.refusals.insert(process.pid, before.get(&process.pid).unwrap_or(&0) + 1);
                }
            }
        }
        sum
    }

    /// What did not exist when the run started.
    fn made(&self) -> Made {
        let mut made = Made::default();
        let mut looked = 0;
        for path in &self.watched {
            let Ok(folder) = rustix::fs::openat(CWD, path, crate::folder::FOLDER, rustix::fs::Mode::empty()) else {
                continue;
            };
            let seen = survey(&folder, Closed::Leave, &mut |found| {
                looked += 1;
                if since(&found.stx_btime) >= self.started {
                    made.files += 1;
                    let is_folder = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
                    made.bytes += if is_folder { 0 } else { found.stx_blocks * 512 };
                }
                if looked > MAX_WALK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            made.is_partial |= seen != Ok(true);
        }
        made
    }
}

/// In files without a name that the processes keep open.
fn deleted_bytes(processes: &[Stat]) -> u64 {
    let mut seen = BTreeMap::new();
    for process in processes {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", process.thread)).into_iter().flatten().flatten();
        let open = entries.filter_map(|entry| std::fs::metadata(entry.path()).ok());
        for metadata in open.filter(|metadata| metadata.is_file() && metadata.nlink() == 0) {
            seen.insert((metadata.dev(), metadata.ino()), metadata.blocks() * 512);
        }
    }
    seen.values().sum()
}

fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn written(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.trim().parse().ok()
}

fn free(path: &Path) -> io::Result<Free> {
    look(path).map(|(free, _)| free)
}

fn look(path: &Path) -> io::Result<(Free, Space)> {
    let numbers = rustix::fs::statvfs(path)?;
    let free = Free { bytes: numbers.f_bfree.saturating_mul(numbers.f_frsize), files: numbers.f_ffree };
    Ok((free, Space::of(&numbers)))
}

/// The clock by which the kernel stamps files, which is a little behind the machine's.
fn kernel_time() -> (i64, u32) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn since(stamp: &StatxTimestamp) -> (i64, u32) {
    (stamp.tv_sec, stamp.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_since_the_start_counts() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::write(directory.path().join("old"), vec![1; 1 << 20]).unwrap();
        let made = std::fs::metadata(directory.path().join("old")).unwrap().created().unwrap();
        let made = made.duration_since(std::time::UNIX_EPOCH).unwrap();
        while kernel_time() <= (made.as_secs().cast_signed(), made.subsec_nanos()) {
            std::thread::yield_now();
        }
        let bounds = Bounds {
            memory_bytes: 1 << 30,
            processes: 1,
            open_files: 1,
            file_bytes: 1 << 30,
            disk_bytes: 1 << 20,
            files: 1,
        };
        let disk = Disk::start(&[directory.path().to_owned()], bounds, None, Tier::None).unwrap();
        assert_eq!((disk.made().bytes, disk.made().files), (0, 0));
        std::fs::create_dir(directory.path().join("inner")).unwrap();
        let file = File::create(directory.path().join("inner/new")).unwrap();
        std::io::Write::write_all(&mut &file, &vec![1; 2 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!((2 << 20..3 << 20).contains(&disk.made().bytes), "{:?}", disk.made());
        assert_eq!(disk.made().files, 2);
        let own = super::super::tree::stat(std::process::id().cast_signed()).unwrap();
        let before = deleted_bytes(&[own]);
        std::fs::remove_file(directory.path().join("inner/new")).unwrap();
        assert!(deleted_bytes(&[own]) >= before + (2 << 20));
        assert_eq!((disk.made().bytes, disk.made().files), (0, 1));
    }

    #[test]
    fn the_kernels_figures_are_read() {
        assert_eq!(written("rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"), Some(4096));
        assert!(written(&std::fs::read_to_string("/proc/self/io").unwrap()).is_some());
    }
}
