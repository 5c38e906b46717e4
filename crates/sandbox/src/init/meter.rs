//! How much the processes inside use, where no control group counts it.
//!
//! Memory is what is resident, files in memory included. Pages that several processes share are
//! counted once, but only when the cheap count, which sees them several times, is over the bound.
//! Disk is what the file systems under the writable paths lost since the start, when the processes
//! wrote as much: either figure alone would blame them for what others do, or for rewriting one
//! file again and again.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::tree::{self, Stat};
use crate::Tier;
use crate::plan::{Bounds, Plan, Report};

/// Processes that are ending are still counted by the kernel, so a few more are no offence.
const PROCESS_SLACK: u64 = 16;

pub(crate) struct Meter {
    pub(crate) tier: Tier,
    bounds: Bounds,
    memory_backed: Vec<PathBuf>,
    /// Each file system once, with its free bytes at the start.
    disks: Vec<(PathBuf, u64)>,
    /// Opened early: later this process may not open its own files any more.
    own_io: Option<File>,
    page_bytes: u64,
    pub(crate) busy: bool,
    last_resident_pages: u64,
    last_lost_bytes: u64,
}

impl Meter {
    pub(crate) fn start(plan: &Plan) -> io::Result<Self> {
        let mut disks: Vec<(PathBuf, u64)> = Vec::new();
        let mut devices = Vec::new();
        for path in &plan.watched {
            let device = std::fs::metadata(path)?.dev();
            if !devices.contains(&device) {
                devices.push(device);
                disks.push((path.clone(), free_bytes(path)?));
            }
        }
        Ok(Self {
            tier: plan.tier,
            bounds: plan.bounds,
            memory_backed: plan.memory_backed.clone(),
            disks,
            own_io: File::open("/proc/self/io").ok(),
            page_bytes: rustix::param::page_size() as u64,
            busy: true,
            last_resident_pages: 0,
            last_lost_bytes: 0,
        })
    }

    /// The bound that is broken, if one is.
    pub(crate) fn measure(&mut self) -> Option<Report> {
        let processes = tree::processes(self.tier);
        if processes.iter().map(|process| process.threads).sum::<u64>() > self.bounds.processes + PROCESS_SLACK {
            return Some(Report::ProcessLimit);
        }
        let resident: u64 = processes.iter().map(|process| process.resident_pages).sum();
        self.busy = resident.abs_diff(self.last_resident_pages) * self.page_bytes > 1 << 20;
        self.last_resident_pages = resident;
        let in_files: u64 = self.memory_backed.iter().filter_map(|path| used_bytes(path).ok()).sum();
        if self.is_memory_exceeded(&processes, in_files) {
            return Some(Report::MemoryLimit);
        }
        let losses = self.disks.iter().map(|(path, before)| before.saturating_sub(free_bytes(path).unwrap_or(*before)));
        let lost = losses.max().unwrap_or(0);
        self.busy |= lost.abs_diff(self.last_lost_bytes) > 1 << 20;
        self.last_lost_bytes = lost;
        let filled = lost > self.bounds.disk_bytes;
        (filled && self.written_bytes(&processes) > self.bounds.disk_bytes).then_some(Report::DiskLimit)
    }

    fn is_memory_exceeded(&self, processes: &[Stat], in_files: u64) -> bool {
        let bound = self.bounds.memory_bytes;
        let hidden: u64 = processes
            .iter()
            .filter(|process| process.virtual_bytes > bound)
            .map(|process| anonymous_shared_bytes(process.pid).saturating_sub(process.resident_pages * self.page_bytes))
            .sum();
        let resident = processes.iter().map(|process| process.resident_pages).sum::<u64>() * self.page_bytes;
        if resident + in_files + hidden <= bound {
            return false;
        }
        let proportional: u64 = processes
            .iter()
            .map(|process| proportional_bytes(process.pid).unwrap_or(process.resident_pages * self.page_bytes))
            .sum();
        proportional + in_files + hidden > bound
    }

    /// Written to disks by the processes inside, those that ended too. Without an answer it is
    /// taken to be as much as it can be: a process can refuse to be asked.
    fn written_bytes(&self, processes: &[Stat]) -> u64 {
        let own = self.own_io.as_ref().and_then(|file| {
            let mut text = [0; 512];
            let length = file.read_at(&mut text, 0).ok()?;
            written(std::str::from_utf8(&text[..length]).ok()?)
        });
        let of = |process: &Stat| match std::fs::read_to_string(format!("/proc/{}/io", process.pid)) {
            Ok(text) => written(&text),
            // It ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(0),
            Err(_) => None,
        };
        processes.iter().map(of).chain([own]).fold(0u64, |sum, bytes| sum.saturating_add(bytes.unwrap_or(u64::MAX)))
    }
}

fn written(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.trim().parse().ok()
}

fn free_bytes(path: &Path) -> io::Result<u64> {
    let numbers = rustix::fs::statvfs(path)?;
    Ok(numbers.f_bfree.saturating_mul(numbers.f_frsize))
}

fn used_bytes(path: &Path) -> io::Result<u64> {
    let numbers = rustix::fs::statvfs(path)?;
    Ok(numbers.f_blocks.saturating_sub(numbers.f_bfree).saturating_mul(numbers.f_frsize))
}

/// Resident memory, with what is shared divided by those who share it.
fn proportional_bytes(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Memory without a file that was mapped to be shared: its pages stay in use when a process drops
/// them from its own tables, so what is resident says too little.
fn anonymous_shared_bytes(pid: i32) -> u64 {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return 0 };
    text.lines().filter_map(anonymous_shared_mapping).sum()
}

fn anonymous_shared_mapping(line: &str) -> Option<u64> {
    let (range, rest) = line.split_once(' ')?;
    if !rest.ends_with("/dev/zero (deleted)") {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    u64::from_str_radix(end, 16).ok()?.checked_sub(u64::from_str_radix(start, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        assert_eq!(written("rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"), Some(4096));
        let line = "7f0000000000-7f0000400000 rw-s 00000000 00:01 1026 /dev/zero (deleted)";
        assert_eq!(anonymous_shared_mapping(line), Some(4 << 20));
        assert_eq!(anonymous_shared_mapping("7f0000000000-7f0000400000 rw-p 00000000 00:00 0"), None);
        assert!(proportional_bytes(std::process::id() as i32).unwrap() > 100_000);
        assert!(written(&std::fs::read_to_string("/proc/self/io").unwrap()).is_some());
    }
}
