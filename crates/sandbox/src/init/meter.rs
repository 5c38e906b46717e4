//! How much the processes inside use, where no control group counts it.
//!
//! Memory is what is resident, files in memory included. Pages that several processes share are
//! counted once, but only when the cheap count, which sees them several times, is over the bound.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::tree::{self, Stat};
use crate::Tier;
use crate::plan::{Bounds, Plan, Report};

/// Processes that are ending are still counted by the kernel, so a few more are no offence.
const PROCESS_SLACK: u64 = 16;

pub(crate) struct Meter {
    pub(crate) tier: Tier,
    bounds: Bounds,
    memory_backed: Vec<PathBuf>,
    disk: Disk,
    page_bytes: u64,
    pub(crate) busy: bool,
    last_resident_pages: u64,
}

impl Meter {
    pub(crate) fn start(plan: &Plan) -> io::Result<Self> {
        Ok(Self {
            tier: plan.tier,
            bounds: plan.bounds,
            memory_backed: plan.memory_backed.clone(),
            disk: Disk::start(&plan.watched, plan.bounds.disk_bytes)?,
            page_bytes: rustix::param::page_size() as u64,
            busy: true,
            last_resident_pages: 0,
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
        self.disk.is_exceeded(&processes, &mut self.busy).then_some(Report::DiskLimit)
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
        let line = "7f0000000000-7f0000400000 rw-s 00000000 00:01 1026 /dev/zero (deleted)";
        assert_eq!(anonymous_shared_mapping(line), Some(4 << 20));
        assert_eq!(anonymous_shared_mapping("7f0000000000-7f0000400000 rw-p 00000000 00:00 0"), None);
        assert!(proportional_bytes(std::process::id() as i32).unwrap() > 100_000);
    }
}
