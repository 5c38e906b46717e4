//! Disk usage of a run and size of its workspace.
//!
//! Disk usage is measured in two ways, because each has a blind spot. The loss of free space of the file systems is
//! cheap to read and covers everything, but includes what others allocate and free meanwhile. A walk over the files
//! created by this run is only made after many writes or new files, and does not see the growth of older files. Neither
//! counts unless the processes wrote as much, since a program may rewrite one file any number of times. The loss of
//! free space is measured over a window of a few minutes; otherwise a server that runs for weeks would be blamed for
//! what others allocate.
//!
//! The content of a workspace is counted completely (`workspace`). Closed folders are opened for that before the
//! program starts and after it has ended; meanwhile, hidden content shows as lost free files.

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

/// Maximum number of files per walk; for a larger directory the loss of free space counts.
const MAX_WALKED_FILES: u64 = 300_000;
/// Period for which the loss of free space is attributed to the run.
const LOSS_WINDOW: Duration = Duration::from_secs(600);
/// Number of consecutive refusals after which a process is considered to hide its data. A process that is starting or
/// ending may refuse once or twice.
const MAX_REFUSALS: u32 = 10;
/// Usage that is permitted even when the disk is almost full.
const TOLERATED_BYTES: u64 = 1 << 20;
const TOLERATED_FILES: u64 = 64;

pub(crate) struct Disk {
    bounds: Bounds,
    watched: Vec<PathBuf>,
    /// Each file system once, with its free space at the start.
    free_before: Vec<(PathBuf, Free)>,
    started: (i64, u32),
    /// Opened early, since this process may not be able to open its own files later.
    own_io: Option<File>,
    window_since: Instant,
    written_before: u64,
    written_at_walk: u64,
    lost: Free,
    lost_files_at_walk: u64,
    refusals: BTreeMap<i32, u32>,
    workspace: Option<Workspace>,
}

/// Free or lost space of a file system.
#[derive(Debug, Clone, Copy, Default)]
struct Free {
    bytes: u64,
    files: u64,
}

/// Files created by a run.
#[derive(Debug, Default)]
struct CreatedFiles {
    files: u64,
    bytes: u64,
    /// Whether something could not be inspected.
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

    /// Returns the exceeded limit, if any. Sets `busy` if much has changed since the last measurement.
    pub(crate) fn measure(&mut self, processes: &[Stat], busy: &mut bool) -> Option<Report> {
        let mut lost = Free::default();
        let mut is_short = false;
        for (path, before) in &self.free_before {
            // A file system that does not respond counts as unchanged.
            let (now, space) = read_space(path).unwrap_or((*before, Space::default()));
            // A run that allocated nothing is not responsible for a lack of space.
            let took = before.bytes.saturating_sub(now.bytes) > TOLERATED_BYTES
                || before.files.saturating_sub(now.files) > TOLERATED_FILES;
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
        let is_refused = self.refusals.values().any(|looks| *looks >= MAX_REFUSALS);
        let bound = self.bounds.disk_bytes;
        if lost.bytes > bound && (written.saturating_sub(self.written_before) > bound || is_refused) {
            return Some(Report::DiskLimit);
        }
        if let Some(broken) = self.workspace.as_mut().and_then(Workspace::measure_if_due) {
            return Some(broken);
        }
        if self.window_since.elapsed() > LOSS_WINDOW {
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
        let created = self.created();
        if wrote_much {
            self.written_at_walk = written;
            if created.bytes + deleted_bytes(processes) > bound {
                return Some(Report::DiskLimit);
            }
        }
        if made_many {
            self.lost_files_at_walk = lost.files;
        }
        (created.files > self.bounds.files || (made_many && created.is_partial)).then_some(Report::FileLimit)
    }

    /// Checks the number of files in the workspace. Cheap unless it may be exceeded.
    pub(crate) fn check_workspace_files(&mut self) -> Option<Report> {
        self.workspace.as_mut().and_then(Workspace::check_files)
    }

    /// Returns the maximum delay until the next check of the workspace.
    pub(crate) fn max_wait(&self) -> Option<Duration> {
        self.workspace.as_ref().map(Workspace::max_wait)
    }

    /// Measures the workspace after the program has ended.
    pub(crate) fn measure_workspace(&mut self) -> Option<Report> {
        self.workspace.as_mut().and_then(Workspace::measure_at_end)
    }

    /// Returns the bytes written to disks by the processes inside, including ended ones. Refusals are recorded.
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

    /// Measures the files that did not exist when the run started.
    fn created(&self) -> CreatedFiles {
        let mut created = CreatedFiles::default();
        let mut looked = 0;
        for path in &self.watched {
            let Ok(folder) = rustix::fs::openat(CWD, path, crate::folder::FOLDER, rustix::fs::Mode::empty()) else {
                continue;
            };
            let seen = survey(&folder, Closed::Leave, &mut |found| {
                looked += 1;
                if since(&found.stx_btime) >= self.started {
                    created.files += 1;
                    let is_folder = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
                    created.bytes += if is_folder { 0 } else { found.stx_blocks * 512 };
                }
                if looked > MAX_WALKED_FILES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            created.is_partial |= seen != Ok(true);
        }
        created
    }
}

/// Returns the size of deleted files that the processes have open.
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
    read_space(path).map(|(free, _)| free)
}

fn read_space(path: &Path) -> io::Result<(Free, Space)> {
    let numbers = rustix::fs::statvfs(path)?;
    let free = Free { bytes: numbers.f_bfree.saturating_mul(numbers.f_frsize), files: numbers.f_ffree };
    Ok((free, Space::of(&numbers)))
}

/// Returns the kernel's clock for file timestamps, which lags slightly behind the system clock.
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
    fn only_files_created_since_the_start_count() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::write(directory.path().join("old"), vec![1; 1 << 20]).unwrap();
        let created = std::fs::metadata(directory.path().join("old")).unwrap().created().unwrap();
        let created = created.duration_since(std::time::UNIX_EPOCH).unwrap();
        while kernel_time() <= (created.as_secs().cast_signed(), created.subsec_nanos()) {
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
        assert_eq!((disk.created().bytes, disk.created().files), (0, 0));
        std::fs::create_dir(directory.path().join("inner")).unwrap();
        let file = File::create(directory.path().join("inner/new")).unwrap();
        std::io::Write::write_all(&mut &file, &vec![1; 2 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!((2 << 20..3 << 20).contains(&disk.created().bytes), "{:?}", disk.created());
        assert_eq!(disk.created().files, 2);
        let own = super::super::tree::stat(std::process::id().cast_signed()).unwrap();
        let before = deleted_bytes(&[own]);
        std::fs::remove_file(directory.path().join("inner/new")).unwrap();
        assert!(deleted_bytes(&[own]) >= before + (2 << 20));
        assert_eq!((disk.created().bytes, disk.created().files), (0, 1));
    }

    #[test]
    fn kernel_statistics_are_parsed() {
        assert_eq!(written("rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"), Some(4096));
        assert!(written(&std::fs::read_to_string("/proc/self/io").unwrap()).is_some());
    }
}
