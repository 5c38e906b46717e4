//! Kernel memory held for the processes inside that no process reports as its own. It is counted where no control group
//! does so, at its maximum: what a descriptor can hold, not what it holds.
//!
//! Three values are global to the machine: files in memory, TCP buffers, and small unreclaimable objects. They only
//! count against a run that could have caused them. Small objects are also checked under a control group, since some of
//! them (file locks) are charged to no group.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::tree::Stat;
use crate::Tier;
use crate::plan::Plan;

/// Pipe of a user who has many, with related objects; the first thousand hold 64 KiB.
const PIPE_BYTES: u64 = 16 << 10;
/// Maximum number of queued events (fs.inotify.max_queued_events), with long names.
const INOTIFY_BYTES: u64 = 5 << 20;
/// Instance that watches a thousand descriptors.
const EPOLL_BYTES: u64 = 200 << 10;
/// Any other open file; a file of /proc retains a page for its text.
const FILE_BYTES: u64 = 6 << 10;
/// One end of a pseudo terminal, with its buffered data.
const TERMINAL_BYTES: u64 = 24 << 10;
/// Maximum buffers of one TCP connection (net.ipv4.tcp_rmem, tcp_wmem).
const TCP_CONNECTION_BYTES: u64 = 64 << 20;
/// Number of consecutive refusals after which a process is considered to hide its descriptors. A process that is
/// starting or ending may refuse.
const MAX_REFUSALS: u32 = 5;
/// Number of consecutive measurements with refusals by changing processes after which all of them count.
const MAX_TOTAL_REFUSALS: u32 = 25;
/// Maximum number of mappings per process; more are considered abuse.
const MAX_MAPPINGS: usize = 16_384;
/// Size of small objects that is always tolerated, since the machine has other work too.
const TOLERATED_SMALL_OBJECT_BYTES: u64 = 128 << 20;
/// Upper bound for their growth per second of kernel time.
const MAX_SMALL_OBJECT_BYTES_PER_SECOND: u64 = 1 << 30;
/// Period for which the machine's loss is attributed to the run.
const LOSS_WINDOW: Duration = Duration::from_secs(600);

/// Values of the machine, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Machine {
    in_shared_memory: u64,
    in_tcp: u64,
    in_small_objects: u64,
}

pub(crate) struct Kernel {
    tier: Tier,
    bound: u64,
    socket_bytes: u64,
    open_files: u64,
    /// Shared memory objects seen last, by number, with their maximum size.
    shared: BTreeMap<u64, u64>,
    /// Processes that refused in the last measurement, with the number of consecutive refusals.
    refusals: BTreeMap<i32, u32>,
    /// Number of consecutive measurements with any refusal.
    measurements_refused: u32,
    before: Machine,
    since: Instant,
}

/// Result of one measurement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KernelUsage {
    /// Shared memory without a file, mapped or not; `None` if it was not measured, because all mappings together are
    /// within the limit.
    pub(crate) shared: Option<u64>,
    /// Page tables.
    pub(crate) tables: u64,
    /// Maximum size behind descriptors.
    pub(crate) buffers: u64,
    /// Whether something could not be inspected.
    pub(crate) is_hidden: bool,
}

impl Kernel {
    pub(crate) fn start(plan: &Plan) -> Self {
        Self {
            tier: plan.tier,
            bound: plan.bounds.memory_bytes,
            socket_bytes: plan.socket_bytes,
            open_files: plan.bounds.open_files,
            shared: BTreeMap::new(),
            refusals: BTreeMap::new(),
            measurements_refused: 0,
            before: machine(),
            since: Instant::now(),
        }
    }

    pub(crate) fn measure(&mut self, processes: &[Stat]) -> KernelUsage {
        let mapped = processes.iter().fold(0u64, |sum, process| sum.saturating_add(process.virtual_bytes));
        if mapped <= self.bound {
            self.shared.clear();
            let buffers = self.buffers(processes);
            return KernelUsage { shared: None, tables: 0, buffers, is_hidden: !self.refusals.is_empty() };
        }
        let large = processes.iter().filter(|process| process.virtual_bytes > self.bound);
        let tables = large.filter_map(|process| table_bytes(process.thread)).sum();
        // Enough is known, and a measurement must be short.
        if tables > self.bound {
            return KernelUsage { tables, ..KernelUsage::default() };
        }
        let (shared, buffers) = (Some(self.shared_bytes(processes)), self.buffers(processes));
        KernelUsage { shared, tables, buffers, is_hidden: !self.refusals.is_empty() }
    }

    /// Whether the machine lost more than the limit since the start to objects that this run could have created.
    /// `in_files` is what the run holds openly of the same kind. `has_group` means that a control group counts
    /// everything that can be charged to it.
    pub(crate) fn is_machine_short(&mut self, processes: &[Stat], in_files: u64, has_group: bool) -> bool {
        let now = machine();
        if self.since.elapsed() > LOSS_WINDOW {
            (self.before, self.since) = (now, Instant::now());
        }
        self.is_small_object_growth_caused_by_run(now, processes)
            || !has_group
                && (self.is_tcp_growth_caused_by_run(now)
                    || self.is_shared_memory_growth_caused_by_run(now, processes, in_files))
    }

    /// Creating that number of objects takes kernel time. ZFS keeps its cache in such objects, for which the run is not
    /// responsible.
    fn is_small_object_growth_caused_by_run(&self, now: Machine, processes: &[Stat]) -> bool {
        let lost = now.in_small_objects.saturating_sub(self.before.in_small_objects);
        if lost <= self.bound.max(TOLERATED_SMALL_OBJECT_BYTES) || Path::new("/proc/spl/kstat/zfs").exists() {
            return false;
        }
        let own = super::tree::stat(rustix::process::getpid().as_raw_nonzero().get());
        let ticks: u64 = processes.iter().chain(&own).map(|process| process.system_ticks).sum();
        ticks.saturating_mul(MAX_SMALL_OBJECT_BYTES_PER_SECOND / rustix::param::clock_ticks_per_second()) > lost
    }

    /// Connections only exist in a separate network.
    fn is_tcp_growth_caused_by_run(&self, now: Machine) -> bool {
        let lost = now.in_tcp.saturating_sub(self.before.in_tcp);
        self.tier == Tier::Bubblewrap && lost > self.bound && connections().saturating_mul(TCP_CONNECTION_BYTES) > lost
    }

    /// A shared memory object keeps pages that are no longer mapped, so mappings may understate it. The process that
    /// filled it had a fault for every page.
    fn is_shared_memory_growth_caused_by_run(&self, now: Machine, processes: &[Stat], in_files: u64) -> bool {
        let lost = now.in_shared_memory.saturating_sub(self.before.in_shared_memory + in_files);
        if lost <= self.bound || self.shared.is_empty() && !processes.iter().any(|process| has_shared(process.thread)) {
            return false;
        }
        let own = super::tree::stat(rustix::process::getpid().as_raw_nonzero().get());
        let faults: u64 = processes.iter().chain(&own).map(|process| process.faults).sum();
        faults.saturating_mul(rustix::param::page_size() as u64) > self.bound
    }

    fn shared_bytes(&mut self, processes: &[Stat]) -> u64 {
        let before = std::mem::take(&mut self.shared);
        let mut unread = 0;
        for process in processes {
            let Ok(text) = fs::read_to_string(format!("/proc/{}/maps", process.thread)) else { continue };
            let mut objects = BTreeMap::new();
            for (number, line) in text.lines().enumerate() {
                if number == MAX_MAPPINGS {
                    unread += process.virtual_bytes;
                    break;
                }
                if let Some((object, bytes)) = shared_mapping(line) {
                    *objects.entry(object).or_insert(0) += bytes;
                }
            }
            for (object, bytes) in objects {
                let known = before.get(&object).copied().unwrap_or(0).max(bytes);
                let largest = self.shared.entry(object).or_insert(0);
                *largest = known.max(*largest);
            }
        }
        self.shared.values().sum::<u64>() + unread
    }

    fn buffers(&mut self, processes: &[Stat]) -> u64 {
        let (mut sockets, mut pipes) = (BTreeSet::new(), BTreeSet::new());
        let before = std::mem::take(&mut self.refusals);
        let mut sum = 0;
        // A process without memory has ended and shows nothing.
        for process in processes.iter().filter(|process| process.virtual_bytes > 0) {
            let entries = match fs::read_dir(format!("/proc/{}/fd", process.thread)) {
                Ok(entries) => entries,
                Err(error) if has_ended(&error) => continue,
                Err(_) => {
                    self.refusals.insert(process.pid, before.get(&process.pid).map_or(1, |count| count + 1));
                    continue;
                }
            };
            for entry in entries.flatten() {
                let Ok(target) = fs::read_link(entry.path()) else { continue };
                let target = target.to_string_lossy();
                match target.split_once(':') {
                    Some(("socket", number)) => drop(sockets.insert(number.to_owned())),
                    Some(("pipe", number)) => drop(pipes.insert(number.to_owned())),
                    Some(("anon_inode", "inotify")) => sum += INOTIFY_BYTES,
                    Some(("anon_inode", "[eventpoll]")) => sum += EPOLL_BYTES,
                    _ if target.starts_with("/dev/pt") => sum += TERMINAL_BYTES,
                    _ => sum += FILE_BYTES,
                }
            }
            // Enough is known, and a measurement must be short.
            if sum + sockets.len() as u64 * self.socket_bytes > self.bound {
                break;
            }
        }
        // Sockets in transit between processes are in no descriptor table.
        let sockets = match self.tier {
            Tier::Bubblewrap => network_sockets().max(sockets.len() as u64),
            Tier::Landlock | Tier::None => sockets.len() as u64,
        };
        self.measurements_refused = if self.refusals.is_empty() { 0 } else { self.measurements_refused + 1 };
        let is_hiding = |count: &&u32| **count >= MAX_REFUSALS || self.measurements_refused >= MAX_TOTAL_REFUSALS;
        let hiding = self.refusals.values().filter(is_hiding).count() as u64;
        sum + (sockets + hiding * self.open_files) * self.socket_bytes + pipes.len() as u64 * PIPE_BYTES
    }
}

fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn has_shared(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines().take(MAX_MAPPINGS).any(|line| shared_mapping(line).is_some())
}

/// Returns the number of the object and its mapped size.
fn shared_mapping(line: &str) -> Option<(u64, u64)> {
    let line = line.strip_suffix("/dev/zero (deleted)")?;
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let bytes = u64::from_str_radix(end, 16).ok()?.checked_sub(u64::from_str_radix(start, 16).ok()?)?;
    Some((fields.nth(3)?.parse().ok()?, bytes))
}

fn table_bytes(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    kilobytes(&text, "VmPTE:")
}

/// Returns the value of a line such as `VmPTE:  12 kB`, in bytes.
pub(crate) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let figure = text.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix(" kB")?;
    figure.parse::<u64>().ok().map(|kilobytes| kilobytes.saturating_mul(1024))
}

fn machine() -> Machine {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let sockets = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let pages = figure(&sockets, "TCP:", "mem").unwrap_or(0);
    Machine {
        in_shared_memory: kilobytes(&memory, "Shmem:").unwrap_or(0),
        in_tcp: pages.saturating_mul(rustix::param::page_size() as u64),
        in_small_objects: kilobytes(&memory, "SUnreclaim:").unwrap_or(0),
    }
}

/// Returns the number of connections in the network of this process.
fn connections() -> u64 {
    let text = |file: &str| fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default();
    figure(&text("sockstat"), "TCP:", "inuse").unwrap_or(0) + figure(&text("sockstat6"), "TCP6:", "inuse").unwrap_or(0)
}

fn network_sockets() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    figure(&text, "sockets:", "used").unwrap_or(0)
}

/// Returns the number after `name` in the line that begins with `line`.
fn figure(text: &str, line: &str, name: &str) -> Option<u64> {
    let mut words = text.lines().find_map(|text| text.strip_prefix(line))?.split_ascii_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_statistics_are_parsed() {
        let line = "7f0000000000-7f0000400000 rw-s 00000000 00:01 1026 /dev/zero (deleted)";
        assert_eq!(shared_mapping(line), Some((1026, 4 << 20)));
        assert_eq!(shared_mapping("7f0000000000-7f0000400000 rw-p 00000000 00:00 0"), None);
        let text = "sockets: used 281\nTCP: inuse 202 orphan 100 tw 0 alloc 202 mem 97324\nUDP: inuse 0 mem 1\n";
        assert_eq!(figure(text, "TCP:", "mem"), Some(97_324));
        assert_eq!(figure(text, "sockets:", "used"), Some(281));
        assert_eq!(figure(text, "TCP6:", "inuse"), None);
        assert!(table_bytes(std::process::id().cast_signed()).unwrap() > 0);
        assert!(network_sockets() > 0);
    }
}
