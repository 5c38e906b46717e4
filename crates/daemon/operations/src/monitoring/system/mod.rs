//! What the machine does, as far as this daemon may use it.
//!
//! Invariants: what cannot be read is unknown and never zero; a limit of a container counts instead of what the machine
//! has; looking costs some reads of `/proc`, however large the data directory is.
//!
//! Deliberately absent: looking in the background. Who wants to know how busy the processors are over a time of its
//! own keeps a probe of its own.

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

/// Two looks that are closer say too little; the last answer is given again.
const LEAST_APART: Duration = Duration::from_secs(1);
/// Two looks that are further apart say too little of now.
const MOST_APART: Duration = Duration::from_secs(60);
/// Then it is looked twice.
const BETWEEN_TWO_LOOKS: Duration = Duration::from_millis(100);
/// Of more descendants the rest is not looked for.
const MAX_CHILDREN: usize = 4_096;

/// Processors.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct CpuView {
    /// How busy they were since this was last asked, a minute at most. Of a container's quota where it has one.
    #[schema(required)]
    pub percent: Option<f64>,
    /// As many as the daemon may use: those that it is bound to, or a container's quota, which may be a fraction.
    pub cores: f64,
    /// How many tasks of the machine ran or waited to, over the last minute.
    #[schema(required)]
    pub load_1m: Option<f64>,
}

/// Memory. The total is a container's limit where it has one that is lower than what the machine has.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct MemoryView {
    #[schema(required)]
    pub total_bytes: Option<u64>,
    /// Without what is only cached.
    #[schema(required)]
    pub used_bytes: Option<u64>,
    #[schema(required)]
    pub percent: Option<f64>,
    /// Resident memory of the daemon.
    #[schema(required)]
    pub process_bytes: Option<u64>,
    /// Resident memory of the daemon in which pages that several processes share count in proportion (PSS).
    #[schema(required)]
    pub process_pss_bytes: Option<u64>,
    /// Resident memory of the daemon that no file backs: its heap and stacks.
    #[schema(required)]
    pub process_anonymous_bytes: Option<u64>,
    /// Resident memory of the processes that it started and of those that they started.
    #[schema(required)]
    pub children_bytes: Option<u64>,
}

/// The file system that the data directory lies on.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DiskView {
    /// The data directory.
    pub path: String,
    #[schema(required)]
    pub total_bytes: Option<u64>,
    #[schema(required)]
    pub used_bytes: Option<u64>,
    /// Of what the daemon could fill, as `df` shows it.
    #[schema(required)]
    pub percent: Option<f64>,
    /// What the data directory takes of it, as it was counted last; `null` until it was counted once.
    #[schema(required)]
    pub data_bytes: Option<u64>,
}

/// The daemon's own process.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct ProcessView {
    pub pid: u32,
    pub uptime_seconds: u64,
    #[schema(required)]
    pub open_files: Option<u64>,
    #[schema(required)]
    pub threads: Option<u64>,
    /// Processes that it started, and those that they started.
    #[schema(required)]
    pub children: Option<u64>,
}

/// Answer of `GET /api/monitoring/system`. What cannot be read on this machine is `null`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SystemView {
    pub cpu: CpuView,
    pub memory: MemoryView,
    pub disk: DiskView,
    pub process: ProcessView,
}

/// How full and how busy the machine is, each in percent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SystemLoad {
    pub cpu_percent: Option<f64>,
    pub memory_percent: Option<f64>,
    pub disk_percent: Option<f64>,
}

/// What was last seen of the processors.
#[derive(Debug, Clone, Copy)]
struct CpuLook {
    at: Instant,
    /// Used by the container's group, in microseconds, or by the machine, in ticks.
    used: Used,
    percent: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
enum Used {
    Quota { micros: u64, cores: f64 },
    Machine(CpuTime),
}

#[derive(Debug)]
struct Inner {
    root: Arc<Path>,
    data: FolderSize,
    last: Mutex<Option<CpuLook>>,
}

/// Looks at the machine. Cheap to clone; clones share what was last seen.
#[derive(Debug, Clone)]
pub struct SystemProbe(Arc<Inner>);

impl SystemProbe {
    /// `root` is the data directory.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self(Arc::new(Inner { root: root.into(), data: FolderSize::new(root), last: Mutex::default() }))
    }

    /// How full and how busy the machine is.
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

    /// All that is known of the machine.
    pub async fn view(&self, uptime: Duration) -> SystemView {
        let (cpu_percent, data_bytes) = tokio::join!(self.cpu_percent(), self.0.data.bytes());
        let this = self.clone();
        let look = move || {
            let [status, rollup] = ["/proc/self/status", "/proc/self/smaps_rollup"].map(read);
            (memory(), disk(&this.0.root), status, rollup, descendants(), open_files())
        };
        let (memory, disk, status, rollup, children, open_files) = blocking(look).await.unwrap_or_default();
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

    /// Between the last look and this one.
    async fn cpu_percent(&self) -> Option<f64> {
        let last = *self.0.last.lock();
        match last {
            Some(last) if last.at.elapsed() < LEAST_APART => return last.percent,
            Some(last) if last.at.elapsed() <= MOST_APART => {}
            _ => {
                *self.0.last.lock() = look(None);
                tokio::time::sleep(BETWEEN_TWO_LOOKS).await;
            }
        }
        let mut last = self.0.last.lock();
        *last = look(*last);
        last.and_then(|look| look.percent)
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

/// The processors that this process is bound to, by number; `None`: not known.
fn own_processors() -> Option<rustix::thread::CpuSet> {
    rustix::thread::sched_getaffinity(None).ok()
}

#[allow(clippy::cast_precision_loss, reason = "machines have fewer than 2^52 processors")]
fn cores() -> f64 {
    let bound_to = match own_processors() {
        Some(own) => own.count() as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let quota = cgroup::cpu_limit(&groups(), &read_file).map(|limit| limit.cores);
    (bound_to as f64).min(quota.unwrap_or(f64::MAX))
}

fn look(last: Option<CpuLook>) -> Option<CpuLook> {
    let used = match cgroup::cpu_limit(&groups(), &read_file) {
        Some(limit) => Used::Quota { micros: limit.used_micros, cores: limit.cores },
        None => {
            let own = own_processors();
            let is_ours = |number| own.is_none_or(|own| number < rustix::thread::CpuSet::MAX_CPU && own.is_set(number));
            Used::Machine(proc::cpu_time(&read("/proc/stat")?, is_ours)?)
        }
    };
    let at = Instant::now();
    let percent = last.and_then(|last| busy_percent(last.used, used, at.duration_since(last.at)));
    Some(CpuLook { at, used, percent })
}

/// How busy processors were between two looks; `None` where they cannot be compared.
#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn busy_percent(before: Used, now: Used, elapsed: Duration) -> Option<f64> {
    let share = match (before, now) {
        (Used::Quota { micros: before, .. }, Used::Quota { micros, cores }) => {
            micros.checked_sub(before)? as f64 / (elapsed.as_secs_f64() * 1e6 * cores)
        }
        (Used::Machine(before), Used::Machine(now)) => {
            now.busy.checked_sub(before.busy)? as f64 / now.total.checked_sub(before.total)? as f64
        }
        _ => return None,
    };
    share.is_finite().then(|| rounded(share * 100.0).clamp(0.0, 100.0))
}

fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| rounded(part as f64 / whole as f64 * 100.0))
}

/// All of it and what is used.
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
    // Some of what is free is for the machine's owner alone.
    let available = stat.f_bavail.saturating_mul(stat.f_frsize);
    Some(Disk { total, used, percent: percent(used, used.saturating_add(available)) })
}

fn open_files() -> Option<u64> {
    // One of them is the folder that is being read.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u64::try_from(count).ok()
}

/// How many processes were started from here, and their resident memory; `None` where the kernel does not tell.
fn descendants() -> Option<(u64, u64)> {
    let mut seen = BTreeSet::new();
    let mut open = vec![std::process::id()];
    let mut tells = false;
    while let Some(pid) = open.pop() {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let Some(text) = read_file(&thread.path().join("children")) else { continue };
            tells = true;
            open.extend(proc::children(&text).filter(|child| seen.len() < MAX_CHILDREN && seen.insert(*child)));
        }
    }
    let resident = |pid: &u32| proc::kib_of(&read(&format!("/proc/{pid}/status"))?, "VmRSS");
    tells.then(|| (seen.len() as u64, seen.iter().filter_map(resident).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_busy_is_the_share_between_two_looks() {
        let second = Duration::from_secs(1);
        let machine = |busy, total| Used::Machine(CpuTime { busy, total });
        assert_eq!(busy_percent(machine(100, 1_000), machine(150, 1_200), second), Some(25.0));
        assert_eq!(busy_percent(machine(100, 1_000), machine(100, 1_000), second), None, "no time passed");
        assert_eq!(busy_percent(machine(200, 1_000), machine(150, 1_200), second), None, "it went back");
        let quota = |micros| Used::Quota { micros, cores: 0.5 };
        assert_eq!(busy_percent(quota(0), quota(250_000), second), Some(50.0));
        assert_eq!(busy_percent(quota(0), quota(900_000), second), Some(100.0), "a quota may be overrun for a moment");
        assert_eq!(busy_percent(machine(1, 2), quota(5), second), None);
    }

    #[tokio::test]
    async fn this_machine_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let probe = SystemProbe::new(folder.path());
        let load = probe.load().await;
        for figure in [load.cpu_percent, load.memory_percent, load.disk_percent] {
            assert!(figure.is_some_and(|percent| (0.0..=100.0).contains(&percent)), "{load:?}");
        }
        let view = probe.view(Duration::from_secs(7)).await;
        assert_eq!(view.cpu.percent, load.cpu_percent, "asked again within a second");
        assert!(view.cpu.cores > 0.0 && view.process.threads >= Some(1) && view.memory.process_bytes > Some(0));
        assert_eq!((view.process.pid, view.process.uptime_seconds), (std::process::id(), 7));
    }

    #[test]
    fn children_are_found_with_their_memory() {
        #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (count, bytes) = descendants().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(count >= 1 && bytes > 0, "{count} with {bytes}");
    }
}
