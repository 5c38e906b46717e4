//! What the kernel holds for the processes inside, and no process shows as its own. It is counted
//! where no control group does it, and taken at its highest: what a descriptor can hold, not what it holds.
//!
//! Three figures are the machine's and not the run's: files in memory, buffers of TCP, and small objects
//! that the kernel cannot give back. They count only against a run that could have caused them. The last
//! is looked at under a control group too: some objects (locks of files) are charged to no group.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::tree::Stat;
use crate::Tier;
use crate::plan::Plan;

/// A pipe whose user has many, and what belongs to it; the first thousand hold 64 KiB.
const PIPE: u64 = 16 << 10;
/// As many events as wait at one time (fs.inotify.max_queued_events), with long names.
const INOTIFY: u64 = 5 << 20;
/// One that watches a thousand descriptors.
const EPOLL: u64 = 200 << 10;
/// Any other open file; one of /proc keeps a page for its text.
const FILE: u64 = 6 << 10;
/// One end of a terminal of its own, with what waits in it.
const TERMINAL: u64 = 24 << 10;
/// What one connection of TCP can have the kernel keep (net.ipv4.tcp_rmem, tcp_wmem).
const TCP: u64 = 64 << 20;
/// A process that is starting or ending may refuse to show its descriptors; one that refuses for this
/// many looks on end hides them.
const REFUSALS: u32 = 5;
/// When others take the place of those that refused, so many looks on end count for all of them.
const REFUSALS_OF_ALL: u32 = 25;
/// Of one process; who has more has something else in mind than sharing memory.
const MAX_MAPPINGS: usize = 16_384;
/// What small objects may take in any case: the machine has other work too.
const SMALL_OBJECTS: u64 = 128 << 20;
/// How much of them is made in a second of the kernel's time at most.
const MADE_IN_A_SECOND: u64 = 1 << 30;
/// For how long what the machine lost is held against the run.
const WINDOW: Duration = Duration::from_secs(600);

/// The machine's figures, in bytes.
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
    /// Objects of shared memory that were seen last, by number, each at its largest.
    shared: BTreeMap<u64, u64>,
    /// Who refused at the last look, and at how many looks on end.
    refusals: BTreeMap<i32, u32>,
    /// At how many looks on end somebody refused.
    looks_refused: u32,
    before: Machine,
    since: Instant,
}

/// What was found at one look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// In shared memory without a file, whether it is mapped or not; `None`: nobody looked, because
    /// all that is mapped together is within the bound.
    pub(crate) shared: Option<u64>,
    /// Tables of pages.
    pub(crate) tables: u64,
    /// At most, behind descriptors.
    pub(crate) buffers: u64,
    /// Not everything could be looked at.
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
            looks_refused: 0,
            before: machine(),
            since: Instant::now(),
        }
    }

    pub(crate) fn held(&mut self, processes: &[Stat]) -> Held {
        let mapped = processes.iter().fold(0u64, |sum, process| sum.saturating_add(process.virtual_bytes));
        if mapped <= self.bound {
            self.shared.clear();
            let buffers = self.buffers(processes);
            return Held { shared: None, tables: 0, buffers, is_hidden: !self.refusals.is_empty() };
        }
        let large = processes.iter().filter(|process| process.virtual_bytes > self.bound);
        let tables = large.filter_map(|process| table_bytes(process.thread)).sum();
        // Enough is known, and a look must not last.
        if tables > self.bound {
            return Held { tables, ..Held::default() };
        }
        let (shared, buffers) = (Some(self.shared_bytes(processes)), self.buffers(processes));
        Held { shared, tables, buffers, is_hidden: !self.refusals.is_empty() }
    }

    /// Whether the machine lost more than the bound since the start to what this run could have
    /// taken. `in_files`: what it holds openly of the same kind. `has_group`: a control group counts
    /// what can be charged to it.
    pub(crate) fn is_machine_short(&mut self, processes: &[Stat], in_files: u64, has_group: bool) -> bool {
        let now = machine();
        if self.since.elapsed() > WINDOW {
            (self.before, self.since) = (now, Instant::now());
        }
        self.are_small_objects_to_blame(now, processes)
            || !has_group && (self.is_tcp_to_blame(now) || self.is_sharing_to_blame(now, processes, in_files))
    }

    /// Who made so many has spent its time in the kernel. ZFS keeps its cache in such objects, which is
    /// nobody's fault.
    fn are_small_objects_to_blame(&self, now: Machine, processes: &[Stat]) -> bool {
        let lost = now.in_small_objects.saturating_sub(self.before.in_small_objects);
        if lost <= self.bound.max(SMALL_OBJECTS) || Path::new("/proc/spl/kstat/zfs").exists() {
            return false;
        }
        let own = super::tree::stat(rustix::process::getpid().as_raw_nonzero().get());
        let ticks: u64 = processes.iter().chain(&own).map(|process| process.system_ticks).sum();
        ticks.saturating_mul(MADE_IN_A_SECOND / rustix::param::clock_ticks_per_second()) > lost
    }

    /// Only in a network of its own are there connections.
    fn is_tcp_to_blame(&self, now: Machine) -> bool {
        let lost = now.in_tcp.saturating_sub(self.before.in_tcp);
        self.tier == Tier::Bubblewrap && lost > self.bound && connections().saturating_mul(TCP) > lost
    }

    /// An object of shared memory keeps pages that nobody has mapped any more, so its mappings may
    /// tell too little; but whoever filled it once had a fault for every page.
    fn is_sharing_to_blame(&self, now: Machine, processes: &[Stat], in_files: u64) -> bool {
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
        // Who has no memory left has ended, and shows nothing to anybody.
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
                    Some(("anon_inode", "inotify")) => sum += INOTIFY,
                    Some(("anon_inode", "[eventpoll]")) => sum += EPOLL,
                    _ if target.starts_with("/dev/pt") => sum += TERMINAL,
                    _ => sum += FILE,
                }
            }
            // Enough is known, and a look must not last.
            if sum + sockets.len() as u64 * self.socket_bytes > self.bound {
                break;
            }
        }
        // Sockets on the way from one process to another are nobody's descriptors.
        let sockets = match self.tier {
            Tier::Bubblewrap => network_sockets().max(sockets.len() as u64),
            Tier::Landlock | Tier::None => sockets.len() as u64,
        };
        self.looks_refused = if self.refusals.is_empty() { 0 } else { self.looks_refused + 1 };
        let is_hiding = |count: &&u32| **count >= REFUSALS || self.looks_refused >= REFUSALS_OF_ALL;
        let hiding = self.refusals.values().filter(is_hiding).count() as u64;
        sum + (sockets + hiding * self.open_files) * self.socket_bytes + pipes.len() as u64 * PIPE
    }
}

fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn has_shared(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines().take(MAX_MAPPINGS).any(|line| shared_mapping(line).is_some())
}

/// The number of the object and how much of it is mapped.
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

/// The figure of a line such as `VmPTE:  12 kB`, in bytes.
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

/// Of the network that this process is in.
fn connections() -> u64 {
    let text = |file: &str| fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default();
    figure(&text("sockstat"), "TCP:", "inuse").unwrap_or(0) + figure(&text("sockstat6"), "TCP6:", "inuse").unwrap_or(0)
}

fn network_sockets() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    figure(&text, "sockets:", "used").unwrap_or(0)
}

/// The number after `name` in the line that `line` begins.
fn figure(text: &str, line: &str, name: &str) -> Option<u64> {
    let mut words = text.lines().find_map(|text| text.strip_prefix(line))?.split_ascii_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
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
