//! How much of the disks a run took.
//!
//! Two questions, because each has a blind spot. What the file systems lost is cheap to ask and
//! sees everything, but also what others use and free meanwhile. What files there are that this run
//! made takes a walk, which is made only when much was written since the last one, and does not
//! see how much older files grew. Neither counts unless the processes wrote as much: a program may
//! rewrite one file as often as it likes. The first question is asked of a few minutes at a time,
//! or every server that runs for weeks would one day be guilty of what others use.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::tree::Stat;

/// Files that one walk looks at; a larger directory is judged by what the file system lost.
const MAX_WALK: usize = 200_000;
/// For how long what file systems lost is held against the run.
const WINDOW: Duration = Duration::from_secs(600);
/// A process that is starting or ending may refuse once or twice; one that refuses for this many
/// looks has something to hide.
const REFUSALS: u32 = 10;

pub(crate) struct Disk {
    bound: u64,
    watched: Vec<PathBuf>,
    /// Each file system once, with its free bytes at the start.
    free_before: Vec<(PathBuf, u64)>,
    started: SystemTime,
    /// Opened early: later this process may not open its own files any more.
    own_io: Option<File>,
    window_since: Instant,
    written_before: u64,
    written_at_walk: u64,
    lost: u64,
    refusals: BTreeMap<i32, u32>,
}

impl Disk {
    pub(crate) fn start(watched: &[PathBuf], bound: u64) -> io::Result<Self> {
        let mut free_before: Vec<(PathBuf, u64)> = Vec::new();
        let mut devices = Vec::new();
        for path in watched {
            let device = std::fs::metadata(path)?.dev();
            if !devices.contains(&device) {
                devices.push(device);
                free_before.push((path.clone(), free_bytes(path)?));
            }
        }
        Ok(Self {
            bound,
            watched: watched.to_vec(),
            free_before,
            started: kernel_time()?,
            own_io: File::open("/proc/self/io").ok(),
            window_since: Instant::now(),
            written_before: 0,
            written_at_walk: 0,
            lost: 0,
            refusals: BTreeMap::new(),
        })
    }

    /// Whether the run took more than it may. `busy` is set when much changed since the last look.
    pub(crate) fn is_exceeded(&mut self, processes: &[Stat], busy: &mut bool) -> bool {
        let losses = self.free_before.iter().map(|(path, before)| {
            // A file system that does not answer has lost nothing that is known.
            before.saturating_sub(free_bytes(path).unwrap_or(*before))
        });
        let lost = losses.max().unwrap_or(0);
        *busy |= lost.abs_diff(self.lost) > 1 << 20;
        self.lost = lost;
        let written = self.written_bytes(processes);
        let is_refused = self.refusals.values().any(|looks| *looks >= REFUSALS);
        if lost > self.bound && (written.saturating_sub(self.written_before) > self.bound || is_refused) {
            return true;
        }
        if self.window_since.elapsed() > WINDOW {
            self.window_since = Instant::now();
            self.written_before = written;
            for (path, free) in &mut self.free_before {
                *free = free_bytes(path).unwrap_or(*free);
            }
        }
        if written <= self.bound || written.saturating_sub(self.written_at_walk) < self.bound / 2 {
            return false;
        }
        self.written_at_walk = written;
        self.made_bytes() + deleted_bytes(processes) > self.bound
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

    /// In files that did not exist when the run started.
    fn made_bytes(&self) -> u64 {
        let mut to_visit = self.watched.clone();
        let mut looked = 0;
        let mut bytes = 0;
        while let Some(directory) = to_visit.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                looked += 1;
                if looked > MAX_WALK {
                    return bytes;
                }
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    to_visit.push(entry.path());
                } else if metadata.created().is_ok_and(|created| created >= self.started) {
                    bytes += metadata.blocks() * 512;
                }
            }
        }
        bytes
    }
}

/// In files without a name that the processes keep open.
fn deleted_bytes(processes: &[Stat]) -> u64 {
    let mut seen = BTreeMap::new();
    for process in processes {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten();
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

pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let numbers = rustix::fs::statvfs(path)?;
    Ok(numbers.f_bfree.saturating_mul(numbers.f_frsize))
}

/// The clock by which the kernel stamps files, which is a little behind the machine's.
fn kernel_time() -> io::Result<SystemTime> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let seconds = u64::try_from(now.tv_sec).map_err(io::Error::other)?;
    let nanoseconds = u32::try_from(now.tv_nsec).map_err(io::Error::other)?;
    Ok(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_since_the_start_counts() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::write(directory.path().join("old"), vec![1; 1 << 20]).unwrap();
        let made = std::fs::metadata(directory.path().join("old")).unwrap().created().unwrap();
        while kernel_time().unwrap() <= made {
            std::thread::yield_now();
        }
        let disk = Disk::start(&[directory.path().to_owned()], 1 << 20).unwrap();
        assert_eq!(disk.made_bytes(), 0);
        std::fs::create_dir(directory.path().join("inner")).unwrap();
        let file = File::create(directory.path().join("inner/new")).unwrap();
        std::io::Write::write_all(&mut &file, &vec![1; 2 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!((2 << 20..3 << 20).contains(&disk.made_bytes()), "{}", disk.made_bytes());
        let own = super::super::tree::stat(std::process::id().cast_signed()).unwrap();
        let before = deleted_bytes(&[own]);
        std::fs::remove_file(directory.path().join("inner/new")).unwrap();
        assert!(deleted_bytes(&[own]) >= before + (2 << 20));
        assert_eq!(disk.made_bytes(), 0);
    }

    #[test]
    fn the_kernels_figures_are_read() {
        assert_eq!(written("rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"), Some(4096));
        assert!(written(&std::fs::read_to_string("/proc/self/io").unwrap()).is_some());
    }
}
