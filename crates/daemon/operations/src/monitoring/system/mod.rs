//! Resources of the machine that are available to this daemon.
//!
//! Invariants: a value that cannot be read is unknown, never zero. A container's limit takes precedence over the
//! machine's resources. A measurement costs a few reads of `/proc`, independent of the size of the data directory.
//!
//! Nothing is sampled in the background. Create a separate probe to measure processor load over a separate interval.

mod cgroup;
mod folder_size;
mod proc;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use folder_size::FolderSize;
use proc::CpuTime;

/// Minimum interval between two samples; within it the last result is returned.
const MIN_SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum interval between two samples; a longer one does not represent the current load.
const MAX_SAMPLE_INTERVAL: Duration = Duration::from_secs(60);
/// Interval between two samples if the last one is too old.
const SAMPLE_DELAY: Duration = Duration::from_millis(100);
/// Maximum number of descendant processes that are inspected.
const MAX_DESCENDANTS: usize = 4_096;

/// Processors.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct CpuView {
    /// Utilization since the previous request, at most one minute, in percent; relative to the quota of a container, if
    /// one is set.
    #[schema(required)]
    pub percent: Option<f64>,
    /// Number of processors that the daemon may use: its CPU affinity, or a container's quota, which may be fractional.
    pub cores: f64,
    /// Average number of running and waiting tasks of the machine over the last minute.
    #[schema(required)]
    pub load_1m: Option<f64>,
}

/// Memory. The total is the container's limit if it is lower than the memory of the machine.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct MemoryView {
    /// Available memory in bytes.
    #[schema(required)]
    pub total_bytes: Option<u64>,
    /// Used memory without the page cache, in bytes.
    #[schema(required)]
    pub used_bytes: Option<u64>,
    /// Share of used memory in percent, 0 to 100.
    #[schema(required)]
    pub percent: Option<f64>,
    /// Resident memory of the daemon in bytes.
    #[schema(required)]
    pub process_bytes: Option<u64>,
    /// Resident memory of the daemon in bytes, with shared pages counted proportionally (PSS).
    #[schema(required)]
    pub process_pss_bytes: Option<u64>,
    /// Anonymous resident memory of the daemon (heap and stacks) in bytes.
    #[schema(required)]
    pub process_anonymous_bytes: Option<u64>,
    /// Resident memory of all descendant processes in bytes.
    #[schema(required)]
    pub children_bytes: Option<u64>,
}

/// File system of the data directory.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DiskView {
    /// Path of the data directory.
    pub path: String,
    /// Size of the file system in bytes.
    #[schema(required)]
    pub total_bytes: Option<u64>,
    /// Used space of the file system in bytes.
    #[schema(required)]
    pub used_bytes: Option<u64>,
    /// Usage in percent of the space available to the daemon, as shown by `df`, 0 to 100.
    #[schema(required)]
    pub percent: Option<f64>,
    /// Size of the data directory on disk at the last count, in bytes; `null` before the first count.
    #[schema(required)]
    pub data_bytes: Option<u64>,
}

/// Process of the daemon.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct ProcessView {
    /// Process id.
    pub pid: u32,
    /// Time since the daemon started, in seconds.
    pub uptime_seconds: u64,
    /// Number of open file descriptors.
    #[schema(required)]
    pub open_files: Option<u64>,
    /// Number of threads.
    #[schema(required)]
    pub threads: Option<u64>,
    /// Number of descendant processes.
    #[schema(required)]
    pub children: Option<u64>,
}

/// Response of `GET /api/monitoring/system`. Values that cannot be read are `null`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SystemView {
    /// Processors.
    pub cpu: CpuView,
    /// Memory of the machine and of the daemon.
    pub memory: MemoryView,
    /// File system of the data directory.
    pub disk: DiskView,
    /// Process of the daemon.
    pub process: ProcessView,
}

/// Utilization of the machine in percent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SystemLoad {
    pub cpu_percent: Option<f64>,
    pub memory_percent: Option<f64>,
    pub disk_percent: Option<f64>,
}

/// Sample of processor usage.
#[derive(Debug, Clone, Copy)]
struct CpuSample {
    at: Instant,
    /// Usage by the container's group in microseconds, or by the machine in ticks.
    used: CpuUsage,
    percent: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
enum CpuUsage {
    Quota { micros: u64, cores: f64 },
    Machine(CpuTime),
}

#[derive(Debug)]
struct Inner {
    root: Arc<Path>,
    data: FolderSize,
    last: Mutex<Option<CpuSample>>,
}

/// Measures the resources of the machine. Clones share their samples. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SystemProbe(Arc<Inner>);

impl SystemProbe {
    /// `root` is the data directory.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self(Arc::new(Inner { root: root.into(), data: FolderSize::new(root), last: Mutex::default() }))
    }

    /// Returns the utilization of the machine.
    pub async fn load(&self) -> SystemLoad {
        let cpu_percent = self.cpu_percent().await;
        let this = self.clone();
        let (memory, disk) = blocking(move || (memory(), disk(&this.0.root))).await.unwrap_or_default();
        SystemLoad {
            cpu_percent,
            memory_percent: memory.and_then(|(total, used)| percent(used, total)),
            disk_percent: disk.and_then(|disk| disk.percent),
        }
    }

    /// Returns all information about the machine.
    pub async fn view(&self, uptime: Duration) -> SystemView {
        let (cpu_percent, data_bytes) = tokio::join!(self.cpu_percent(), self.0.data.bytes());
        let this = self.clone();
        let read_all = move || {
            let [status, rollup] = ["/proc/self/status", "/proc/self/smaps_rollup"].map(read);
            (memory(), disk(&this.0.root), status, rollup, descendants(), open_files())
        };
        let (memory, disk, status, rollup, children, open_files) = blocking(read_all).await.unwrap_or_default();
        let load_1m = read("/proc/loadavg").as_deref().and_then(proc::load_1m);
        let of_status = |find: fn(&str) -> Option<u64>| status.as_deref().and_then(find);
        SystemView {
            cpu: CpuView { percent: cpu_percent, cores: cores(), load_1m },
            memory: MemoryView {
                total_bytes: memory.map(|(total, _)| total),
                used_bytes: memory.map(|(_, used)| used),
                percent: memory.and_then(|(total, used)| percent(used, total)),
                process_bytes: of_status(|status| proc::kib_of(status, "VmRSS")),
                process_pss_bytes: rollup.as_deref().and_then(|rollup| proc::kib_of(rollup, "Pss")),
                process_anonymous_bytes: rollup.as_deref().and_then(|rollup| proc::kib_of(rollup, "Anonymous")),
                children_bytes: children.map(|(_, bytes)| bytes),
            },
            disk: DiskView {
                path: self.0.root.display().to_string(),
                total_bytes: disk.map(|disk| disk.total),
                used_bytes: disk.map(|disk| disk.used),
                percent: disk.and_then(|disk| disk.percent),
                data_bytes,
            },
            process: ProcessView {
                pid: std::process::id(),
                uptime_seconds: uptime.as_secs(),
                open_files,
                threads: of_status(|status| proc::number_of(status, "Threads")),
                children: children.map(|(count, _)| count),
            },
        }
    }

    /// Returns the utilization since the previous sample.
    async fn cpu_percent(&self) -> Option<f64> {
        let last = *self.0.last.lock();
        match last {
            Some(last) if last.at.elapsed() < MIN_SAMPLE_INTERVAL => return last.percent,
            Some(last) if last.at.elapsed() <= MAX_SAMPLE_INTERVAL => {}
            _ => {
                *self.0.last.lock() = sample_cpu(None);
                tokio::time::sleep(SAMPLE_DELAY).await;
            }
        }
        let mut last = self.0.last.lock();
        *last = sample_cpu(*last);
        last.and_then(|sample| sample.percent)
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

fn read(path: &str) -> Option<String> {
    read_file(Path::new(path))
}

fn read_file(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn groups() -> String {
    read("/proc/self/cgroup").unwrap_or_default()
}

/// Returns the processors that this process may run on; `None` if unknown.
fn allowed_processors() -> Option<rustix::thread::CpuSet> {
    rustix::thread::sched_getaffinity(None).ok()
}

#[allow(clippy::cast_precision_loss, reason = "machines have fewer than 2^52 processors")]
fn cores() -> f64 {
    let bound_to = match allowed_processors() {
        Some(own) => own.count() as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let quota = cgroup::cpu_limit(&groups(), &read_file).map(|limit| limit.cores);
    (bound_to as f64).min(quota.unwrap_or(f64::MAX))
}

fn sample_cpu(last: Option<CpuSample>) -> Option<CpuSample> {
    let used = match cgroup::cpu_limit(&groups(), &read_file) {
        Some(limit) => CpuUsage::Quota { micros: limit.used_micros, cores: limit.cores },
        None => {
            let own = allowed_processors();
            let is_ours = |number| own.is_none_or(|own| number < rustix::thread::CpuSet::MAX_CPU && own.is_set(number));
            CpuUsage::Machine(proc::cpu_time(&read("/proc/stat")?, is_ours)?)
        }
    };
    let at = Instant::now();
    let percent = last.and_then(|last| busy_percent(last.used, used, at.duration_since(last.at)));
    Some(CpuSample { at, used, percent })
}

/// Returns the utilization between two samples; `None` if they are not comparable.
#[allow(clippy::cast_precision_loss, reason = "the value is only displayed")]
fn busy_percent(before: CpuUsage, now: CpuUsage, elapsed: Duration) -> Option<f64> {
    let share = match (before, now) {
        (CpuUsage::Quota { micros: before, .. }, CpuUsage::Quota { micros, cores }) => {
            micros.checked_sub(before)? as f64 / (elapsed.as_secs_f64() * 1e6 * cores)
        }
        (CpuUsage::Machine(before), CpuUsage::Machine(now)) => {
            now.busy.checked_sub(before.busy)? as f64 / now.total.checked_sub(before.total)? as f64
        }
        _ => return None,
    };
    share.is_finite().then(|| round_to_hundredths(share * 100.0).clamp(0.0, 100.0))
}

fn round_to_hundredths(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

#[allow(clippy::cast_precision_loss, reason = "the value is only displayed")]
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| round_to_hundredths(part as f64 / whole as f64 * 100.0))
}

/// Returns total and used memory.
fn memory() -> Option<(u64, u64)> {
    let machine = read("/proc/meminfo").as_deref().and_then(proc::memory);
    let limit = cgroup::memory_limit(&groups(), &read_file);
    match (machine, limit) {
        (Some((total, _)), Some(limit)) if limit.limit < total => Some((limit.limit, limit.used.min(limit.limit))),
        (machine, _) => machine,
    }
}

#[derive(Debug, Clone, Copy)]
struct Disk {
    total: u64,
    used: u64,
    percent: Option<f64>,
}

fn disk(root: &Path) -> Option<Disk> {
    let stat = rustix::fs::statvfs(root).ok()?;
    let total = stat.f_blocks.saturating_mul(stat.f_frsize);
    let used = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize);
    // Part of the free space is reserved for root.
    let available = stat.f_bavail.saturating_mul(stat.f_frsize);
    Some(Disk { total, used, percent: percent(used, used.saturating_add(available)) })
}

fn open_files() -> Option<u64> {
    // The folder handle of this read is counted as well.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u64::try_from(count).ok()
}

/// Returns number and resident memory of descendant processes; `None` if the kernel does not support it.
fn descendants() -> Option<(u64, u64)> {
    let mut seen = BTreeSet::new();
    let mut pending = vec![std::process::id()];
    let mut is_supported = false;
    while let Some(pid) = pending.pop() {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let Some(text) = read_file(&thread.path().join("children")) else { continue };
            is_supported = true;
            pending.extend(proc::children(&text).filter(|child| seen.len() < MAX_DESCENDANTS && seen.insert(*child)));
        }
    }
    let resident = |pid: &u32| proc::kib_of(&read(&format!("/proc/{pid}/status"))?, "VmRSS");
    is_supported.then(|| (seen.len() as u64, seen.iter().filter_map(resident).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_percent_is_the_share_between_two_samples() {
        let second = Duration::from_secs(1);
        let machine = |busy, total| CpuUsage::Machine(CpuTime { busy, total });
        assert_eq!(busy_percent(machine(100, 1_000), machine(150, 1_200), second), Some(25.0));
        assert_eq!(busy_percent(machine(100, 1_000), machine(100, 1_000), second), None, "no time passed");
        assert_eq!(busy_percent(machine(200, 1_000), machine(150, 1_200), second), None, "the counter decreased");
        let quota = |micros| CpuUsage::Quota { micros, cores: 0.5 };
        assert_eq!(busy_percent(quota(0), quota(250_000), second), Some(50.0));
        assert_eq!(busy_percent(quota(0), quota(900_000), second), Some(100.0), "a quota may be exceeded briefly");
        assert_eq!(busy_percent(machine(1, 2), quota(5), second), None);
    }

    #[tokio::test]
    async fn probe_reads_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let probe = SystemProbe::new(folder.path());
        let load = probe.load().await;
        for figure in [load.cpu_percent, load.memory_percent, load.disk_percent] {
            assert!(figure.is_some_and(|percent| (0.0..=100.0).contains(&percent)), "{load:?}");
        }
        let view = probe.view(Duration::from_secs(7)).await;
        assert_eq!(view.cpu.percent, load.cpu_percent, "requested again within a second");
        assert!(view.cpu.cores > 0.0 && view.process.threads >= Some(1) && view.memory.process_bytes > Some(0));
        assert_eq!((view.process.pid, view.process.uptime_seconds), (std::process::id(), 7));
    }

    #[test]
    fn descendants_are_counted_with_their_memory() {
        #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (count, bytes) = descendants().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(count >= 1 && bytes > 0, "{count} with {bytes}");
    }
}
