//! Process metrics from the kernel, under the names that Prometheus clients use.

use agentd_base::Timestamp;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::exposition::{FamilySnapshot, float};
use super::source::Family;

#[allow(clippy::cast_precision_loss, reason = "times of this century fit an f64 to the microsecond")]
pub(super) fn families(started_at: Timestamp) -> Vec<FamilySnapshot> {
    let started = started_at.as_micros() as f64 / 1e6;
    let help = "Unix time of the daemon's start.";
    let mut families = vec![FamilySnapshot::one(Family::gauge("process_start_time_seconds", help), started)];
    if let Some(bytes) = resident_bytes() {
        let help = "Resident memory of the daemon without its children.";
        families.push(FamilySnapshot::one(Family::gauge("process_resident_memory_bytes", help), bytes));
    }
    if let Some(count) = open_files() {
        families.push(FamilySnapshot::one(Family::gauge("process_open_fds", "Open file descriptors."), count));
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        let help = "Maximum number of open file descriptors.";
        families.push(FamilySnapshot::one(Family::gauge("process_max_fds", help), float(limit)));
    }
    let help = "User and system CPU time of the daemon without its children.";
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let used = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
    families.push(FamilySnapshot::one(Family::counter("process_cpu_seconds_total", help), used));
    families
}

/// Returns the resident set size in bytes: the second field of `/proc/self/statm`, in pages; see `proc_pid_statm(5)`.
fn resident_bytes() -> Option<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u32 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    #[allow(clippy::cast_precision_loss, reason = "a page is a few KiB")]
    let page_bytes = rustix::param::page_size() as f64;
    Some(f64::from(pages) * page_bytes)
}

fn open_files() -> Option<f64> {
    // Excludes the descriptor of the directory itself.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u32::try_from(count).ok().map(f64::from)
}
