//! What the kernel knows of this process, under the names that every Prometheus client uses.

use agentd_base::Timestamp;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::text::{Text, float};

#[allow(clippy::cast_precision_loss, reason = "times of this century fit an f64 to the microsecond")]
pub(super) fn write(text: &mut Text, started_at: Timestamp) {
    let started = started_at.as_micros() as f64 / 1e6;
    text.family("process_start_time_seconds", "When the daemon started, in Unix time.", "gauge");
    text.sample("process_start_time_seconds", &[], started);
    if let Some(bytes) = resident_bytes() {
        text.family("process_resident_memory_bytes", "Resident memory of the daemon without its children.", "gauge");
        text.sample("process_resident_memory_bytes", &[], bytes);
    }
    if let Some(count) = open_files() {
        text.family("process_open_fds", "Open file descriptors.", "gauge");
        text.sample("process_open_fds", &[], count);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        text.family("process_max_fds", "How many file descriptors may be open.", "gauge");
        text.sample("process_max_fds", &[], float(limit));
    }
    let name = "process_cpu_seconds_total";
    text.family(name, "Processor time of the daemon without its children, user and system.", "counter");
    let used = clock_gettime(ClockId::ProcessCPUTime);
    text.sample(name, &[], used.tv_sec as f64 + used.tv_nsec as f64 / 1e9);
}

/// Second field of `/proc/self/statm`, in pages: `proc_pid_statm(5)`.
fn resident_bytes() -> Option<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u32 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    #[allow(clippy::cast_precision_loss, reason = "a page is a few KiB")]
    let page_bytes = rustix::param::page_size() as f64;
    Some(f64::from(pages) * page_bytes)
}

fn open_files() -> Option<f64> {
    // One of them is the directory that is being read.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u32::try_from(count).ok().map(f64::from)
}
