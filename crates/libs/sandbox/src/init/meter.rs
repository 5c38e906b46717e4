//! Resource usage of the processes inside. If a control group exists, it limits memory slightly above the limit;
//! otherwise, kernel memory of the processes is counted here as well.
//!
//! Memory is resident memory, including files in memory. Shared pages are counted once, but only if the cheap count,
//! which includes them several times, exceeds the limit.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::Disk;
use super::group::Events;
use super::kernel::{Kernel, KernelUsage, kilobytes};
use super::pace::{MAX_PAUSE, MIN_PAUSE};
use super::tree::{self, Stat};
use crate::Tier;
use crate::plan::{Bounds, ENTRY_BYTES, Plan, Report};

/// Tolerated number of extra processes, since the kernel still counts ending ones.
const PROCESS_SLACK: u64 = 16;

/// Fraction of the limit: if the machine lost this much since the last measurement, another one is made.
const REMEASURE_DIVISOR: u64 = 8;
/// Fraction of the limit: page tables in regular use take 1/512 of the mapped memory.
const SPARSE_TABLE_DIVISOR: u64 = 128;

pub(crate) struct Meter {
    pub(crate) tier: Tier,
    bounds: Bounds,
    memory_backed: Vec<PathBuf>,
    /// Events of the control group that limits memory, if any.
    events: Option<Events>,
    kernel: Kernel,
    disk: Disk,
    page_bytes: u64,
    /// Whether something changed since the last measurement.
    pub(crate) busy: bool,
    /// Whether a process hides its resources, or page tables grow faster than regular memory use explains.
    pub(crate) is_urgent: bool,
    last_bytes: u64,
    last_tables: u64,
    free_at_look: u64,
}

impl Meter {
    pub(crate) fn start(plan: &Plan, events: Option<Events>) -> io::Result<Self> {
        Ok(Self {
            tier: plan.tier,
            bounds: plan.bounds,
            memory_backed: plan.memory_backed.clone(),
            events,
            kernel: Kernel::start(plan),
            disk: Disk::start(&plan.watched, plan.bounds, plan.workspace.as_ref(), plan.tier)?,
            page_bytes: rustix::param::page_size() as u64,
            busy: true,
            is_urgent: false,
            last_bytes: 0,
            last_tables: 0,
            free_at_look: free_bytes(),
        })
    }

    /// Returns the exceeded limit, if any.
    pub(crate) fn measure(&mut self) -> Option<Report> {
        self.free_at_look = free_bytes();
        let processes = tree::processes(self.tier);
        if processes.iter().map(|process| process.threads).sum::<u64>() > self.bounds.processes + PROCESS_SLACK {
            return Some(Report::ProcessLimit);
        }
        if self.is_memory_exceeded(&processes) || self.has_group_oom_kill() || self.is_tcp_exceeded() {
            return Some(self.memory_limit());
        }
        self.disk.measure(&processes, &mut self.busy)
    }

    pub(crate) fn memory_limit(&self) -> Report {
        Report::MemoryLimit { limit: self.bounds.memory_bytes }
    }

    /// Checks the number of files in the workspace. Cheap unless it may be exceeded.
    pub(crate) fn check_workspace_files(&mut self) -> Option<Report> {
        self.disk.check_workspace_files()
    }

    /// Returns the delay until the next cheap check. With a control group few are needed for memory, since the kernel
    /// enforces the limit.
    pub(crate) fn max_wait(&self) -> Duration {
        let longest = if self.events.is_some() { MAX_PAUSE } else { MIN_PAUSE };
        self.disk.max_wait().map_or(longest, |wait| wait.min(longest))
    }

    /// Whether the machine has lost so much memory since the last measurement that the next must be immediate.
    pub(crate) fn is_measurement_due(&self) -> bool {
        self.events.is_none()
            && free_bytes().saturating_add(self.bounds.memory_bytes / REMEASURE_DIVISOR) < self.free_at_look
    }

    /// Returns the workspace limit that is exceeded after the program has ended.
    pub(crate) fn measure_workspace(&mut self) -> Option<Report> {
        self.disk.measure_workspace()
    }

    /// Whether the control group killed a process for lack of memory. The rest of the program may even exit
    /// successfully.
    pub(crate) fn has_group_oom_kill(&self) -> bool {
        self.events.as_ref().is_some_and(Events::has_oom_kill)
    }

    fn is_tcp_exceeded(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.tcp_bytes() > self.bounds.memory_bytes)
    }

    fn is_memory_exceeded(&mut self, processes: &[Stat]) -> bool {
        let bound = self.bounds.memory_bytes;
        let resident = processes.iter().map(|process| process.resident_pages).sum::<u64>() * self.page_bytes;
        let in_files: u64 = self.memory_backed.iter().filter_map(|path| used_bytes(path).ok()).sum();
        let usage = if self.events.is_some() { KernelUsage::default() } else { self.kernel.measure(processes) };
        let known_bytes = in_files + usage.shared.unwrap_or(0) + usage.tables;
        let now = resident + known_bytes + usage.buffers;
        self.is_urgent = usage.is_hidden || usage.tables > self.last_tables + bound / SPARSE_TABLE_DIVISOR;
        self.last_tables = usage.tables;
        self.busy = now.abs_diff(self.last_bytes) > 1 << 20;
        self.last_bytes = now;
        if usage.buffers > bound || self.kernel.is_machine_short(processes, in_files, self.events.is_some()) {
            return true;
        }
        // Already counted. The following walks page tables while they grow.
        if known_bytes > bound {
            return true;
        }
        if resident + known_bytes <= bound {
            return false;
        }
        let proportional: u64 = processes
            .iter()
            .map(|process| {
                proportional_bytes(process.thread, usage.shared.is_none())
                    .unwrap_or(process.resident_pages * self.page_bytes)
            })
            .sum();
        proportional + known_bytes > bound
    }
}

/// Returns the free memory of the machine.
fn free_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.freeram.saturating_mul(u64::from(machine.mem_unit))
}

/// Returns the used bytes of a file system, including the cost of its entries.
fn used_bytes(path: &Path) -> io::Result<u64> {
    let numbers = rustix::fs::statvfs(path)?;
    let bytes = numbers.f_blocks.saturating_sub(numbers.f_bfree).saturating_mul(numbers.f_frsize);
    Ok(bytes.saturating_add(numbers.f_files.saturating_sub(numbers.f_ffree).saturating_mul(ENTRY_BYTES)))
}

/// Returns resident memory, with shared pages divided among the processes that share them. Optionally excludes shared
/// memory, which may be counted elsewhere.
fn proportional_bytes(pid: i32, with_shared: bool) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let all = kilobytes(&text, "Pss:")?;
    if with_shared { Some(all) } else { Some(all.saturating_sub(kilobytes(&text, "Pss_Shmem:").unwrap_or(0))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_statistics_are_parsed() {
        let own = std::process::id().cast_signed();
        assert!(proportional_bytes(own, true).unwrap() > 100_000);
        assert!(proportional_bytes(own, false) <= proportional_bytes(own, true));
    }
}
