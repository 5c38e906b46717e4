//! How much the processes inside use. A control group bounds memory a little higher; where there is
//! none, what the kernel holds for the processes is counted here as well.
//!
//! Memory is what is resident, files in memory included. Pages that several processes share are
//! counted once, but only when the cheap count, which sees them several times, is over the bound.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::Disk;
use super::group::Events;
use super::kernel::{Held, Kernel, kilobytes};
use super::pace::{LONGEST, SHORTEST};
use super::tree::{self, Stat};
use crate::Tier;
use crate::plan::{Bounds, ENTRY_BYTES, Plan, Report};

/// Processes that are ending are still counted by the kernel, so a few more are no offence.
const PROCESS_SLACK: u64 = 16;

/// Of the bound: when the machine lost so much since the last look, whoever took it, there is another.
const WORTH_A_LOOK: u64 = 8;
/// Of the bound: the tables of pages that are in use take a 512th of those.
const SPARSE: u64 = 128;

pub(crate) struct Meter {
    pub(crate) tier: Tier,
    bounds: Bounds,
    memory_backed: Vec<PathBuf>,
    /// Of the control group that bounds memory, where there is one.
    events: Option<Events>,
    kernel: Kernel,
    disk: Disk,
    page_bytes: u64,
    /// Something changed since the last look.
    pub(crate) busy: bool,
    /// A process did not show what it holds, or tables of pages grow faster than memory that is used could make them.
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

    /// The bound that is broken, if one is.
    pub(crate) fn measure(&mut self) -> Option<Report> {
        self.free_at_look = free_bytes();
        let processes = tree::processes(self.tier);
        if processes.iter().map(|process| process.threads).sum::<u64>() > self.bounds.processes + PROCESS_SLACK {
            return Some(Report::ProcessLimit);
        }
        if self.is_memory_exceeded(&processes) || self.has_group_ended_one() || self.is_tcp_exceeded() {
            return Some(self.memory_limit());
        }
        self.disk.measure(&processes, &mut self.busy)
    }

    pub(crate) fn memory_limit(&self) -> Report {
        Report::MemoryLimit { limit: self.bounds.memory_bytes }
    }

    /// Whether the workspace holds too many files. Cheap unless that may be so.
    pub(crate) fn check_workspace_files(&mut self) -> Option<Report> {
        self.disk.check_workspace_files()
    }

    /// Until the next cheap check. With a control group few are needed for memory: the kernel does not wait for one.
    pub(crate) fn longest_wait(&self) -> Duration {
        let longest = if self.events.is_some() { LONGEST } else { SHORTEST };
        self.disk.longest_wait().map_or(longest, |wait| wait.min(longest))
    }

    /// Whether so much of the machine's memory has gone since the last look that the next must not wait.
    pub(crate) fn is_look_due(&self) -> bool {
        self.events.is_none()
            && free_bytes().saturating_add(self.bounds.memory_bytes / WORTH_A_LOOK) < self.free_at_look
    }

    /// What is broken when the program has ended.
    pub(crate) fn measure_workspace(&mut self) -> Option<Report> {
        self.disk.measure_workspace()
    }

    /// Whether the control group ended a process for want of memory: what is left of the program
    /// may even end well.
    pub(crate) fn has_group_ended_one(&self) -> bool {
        self.events.as_ref().is_some_and(Events::tell_of_a_kill)
    }

    fn is_tcp_exceeded(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.tcp_bytes() > self.bounds.memory_bytes)
    }

    fn is_memory_exceeded(&mut self, processes: &[Stat]) -> bool {
        let bound = self.bounds.memory_bytes;
        let resident = processes.iter().map(|process| process.resident_pages).sum::<u64>() * self.page_bytes;
        let in_files: u64 = self.memory_backed.iter().filter_map(|path| used_bytes(path).ok()).sum();
        let held = if self.events.is_some() { Held::default() } else { self.kernel.held(processes) };
        let beside = in_files + held.shared.unwrap_or(0) + held.tables;
        let now = resident + beside + held.buffers;
        self.is_urgent = held.is_hidden || held.tables > self.last_tables + bound / SPARSE;
        self.last_tables = held.tables;
        self.busy = now.abs_diff(self.last_bytes) > 1 << 20;
        self.last_bytes = now;
        if held.buffers > bound || self.kernel.is_machine_short(processes, in_files, self.events.is_some()) {
            return true;
        }
        // Counted once already. What follows walks the tables of pages, while they grow.
        if beside > bound {
            return true;
        }
        if resident + beside <= bound {
            return false;
        }
        let proportional: u64 = processes
            .iter()
            .map(|process| {
                proportional_bytes(process.thread, held.shared.is_none())
                    .unwrap_or(process.resident_pages * self.page_bytes)
            })
            .sum();
        proportional + beside > bound
    }
}

/// Of the machine, for anything.
fn free_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.freeram.saturating_mul(u64::from(machine.mem_unit))
}

/// With what the entries cost.
fn used_bytes(path: &Path) -> io::Result<u64> {
    let numbers = rustix::fs::statvfs(path)?;
    let bytes = numbers.f_blocks.saturating_sub(numbers.f_bfree).saturating_mul(numbers.f_frsize);
    Ok(bytes.saturating_add(numbers.f_files.saturating_sub(numbers.f_ffree).saturating_mul(ENTRY_BYTES)))
}

/// Resident memory, with what is shared divided by those who share it; with or without shared
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
    fn the_kernels_tables_are_read() {
        let own = std::process::id().cast_signed();
        assert!(proportional_bytes(own, true).unwrap() > 100_000);
        assert!(proportional_bytes(own, false) <= proportional_bytes(own, true));
    }
}
