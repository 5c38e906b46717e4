//! Control groups: the kernel accounts for and limits the resources of a run, including kernel memory that no process
//! reports (socket and pipe buffers, files in memory and their entries, dropped pages that are retained by others).
//!
//! The group contains only the program and its children, not the init, which must survive to report why the program
//! ended. Its limit is slightly higher than the configured one: the init's own meter, which measures memory as programs
//! see it, ends most runs before.
//!
//! Invariants: a group is removed when its run has ended, and at the latest when the next daemon starts in the same
//! place; groups of other running daemons are never touched.

mod find;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

pub(crate) use find::{GroupsUnavailable, find};

use crate::plan::Bounds;

/// Prefix of the name of every group of a run.
const PREFIX: &str = "agentd-run-";
/// Divisor for the additional kernel memory of a run beyond its limit: page tables, stacks, buffers.
const HEADROOM_DIVISOR: u64 = 8;
/// Tolerated number of extra processes, since threads of ending programs still count.
const PROCESS_SLACK: u64 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Location of groups: one in version 2, one per controller in version 1.
#[derive(Debug)]
struct GroupLocation {
    version: Version,
    controllers: &'static [&'static str],
    /// Directory in which groups are created; the daemon is in it or next to it.
    directory: PathBuf,
    /// Group of the daemon itself.
    own: PathBuf,
}

/// Locations in which this daemon creates its groups.
#[derive(Debug)]
pub(crate) struct Groups {
    locations: Vec<GroupLocation>,
    /// Groups that could not be removed yet, because a process in them had not fully ended.
    leftovers: Mutex<Vec<PathBuf>>,
}

/// Group of one run; removed on drop.
#[derive(Debug)]
pub(crate) struct Group {
    groups: Arc<Groups>,
    directories: Vec<PathBuf>,
    /// Writing `0` to each of them joins the group.
    pub(crate) entrances: Vec<Arc<OwnedFd>>,
    /// Reports the number of processes that the kernel killed for lack of memory.
    pub(crate) events: Arc<OwnedFd>,
    /// Reports the size of TCP buffers, if the kernel counts them separately.
    pub(crate) tcp: Option<Arc<OwnedFd>>,
}

impl std::fmt::Display for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(location) = self.locations.first() else { return f.write_str("none") };
        let version = match location.version {
            Version::One => 1,
            Version::Two => 2,
        };
        write!(f, "each run has its own control group (version {version}) in {}", location.directory.display())
    }
}

impl Groups {
    /// Creates a group.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses it.
    pub(crate) fn create(self: &Arc<Self>, bounds: &Bounds) -> io::Result<Group> {
        self.remove_leftovers();
        let name = name();
        let mut incomplete = Unfinished { groups: self, directories: Vec::new() };
        let (mut entrances, mut events, mut tcp) = (Vec::new(), None, None);
        for location in &self.locations {
            let directory = location.directory.join(&name);
            fs::create_dir(&directory)?;
            incomplete.directories.push(directory.clone());
            location.bound(&directory, bounds)?;
            entrances.push(Arc::new(File::options().write(true).open(directory.join("cgroup.procs"))?.into()));
            if let Some(file) = location.events() {
                events = Some(Arc::new(File::open(directory.join(file))?.into()));
                tcp =
                    File::open(directory.join("memory.kmem.tcp.usage_in_bytes")).ok().map(|file| Arc::new(file.into()));
            }
        }
        let events = events.ok_or(io::ErrorKind::Unsupported)?;
        let directories = std::mem::take(&mut incomplete.directories);
        Ok(Group { groups: Arc::clone(self), directories, entrances, events, tcp })
    }

    /// Starts the kernel's delay before the first process can change its group, so that the sandbox can be prepared in
    /// the meantime. The daemon itself does not move.
    pub(crate) fn warm_up(&self) {
        if let Some(location) = self.locations.first() {
            // On failure, the first process that joins waits longer.
            let _ = fs::write(location.own.join("cgroup.procs"), "0");
        }
    }

    /// Removes groups in the background, because the kernel may have to write files first.
    fn remove(self: &Arc<Self>, directories: Vec<PathBuf>) {
        let removal = Removal { groups: Arc::clone(self), directories };
        // A runtime that shuts down drops pending tasks, which removes the groups as well.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(|| drop(removal));
        }
    }

    fn remove_leftovers(&self) {
        self.leftovers.lock().retain(|directory| !is_removed(directory));
    }

    /// Removes groups left by daemons that could not remove them.
    fn clear(&self) {
        for location in &self.locations {
            for entry in fs::read_dir(&location.directory).into_iter().flatten().flatten() {
                let is_left = entry.file_name().to_str().and_then(owner).is_some_and(|owner| owner.is_gone());
                if is_left && !is_removed(&entry.path()) {
                    kill_all(&entry.path());
                    self.leftovers.lock().push(entry.path());
                }
            }
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.remove_leftovers();
    }
}

impl GroupLocation {
    fn bound(&self, group: &Path, bounds: &Bounds) -> io::Result<()> {
        let memory = bounds.memory_bytes + bounds.memory_bytes / HEADROOM_DIVISOR;
        let needed = |file: &str, value: &dyn std::fmt::Display| set(&group.join(file), value);
        // Not every kernel has these files.
        let wanted = |file: &str, value: &dyn std::fmt::Display| match needed(file, value) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        };
        for controller in self.controllers {
            match (*controller, self.version) {
                ("memory", Version::One) => {
                    needed("memory.limit_in_bytes", &memory)?;
                    wanted("memory.memsw.limit_in_bytes", &memory)?;
                    // Separate counter. Many connections can exceed it, so the init checks it too.
                    wanted("memory.kmem.tcp.limit_in_bytes", &(bounds.memory_bytes / 2))?;
                }
                ("memory", Version::Two) => {
                    needed("memory.max", &memory)?;
                    wanted("memory.swap.max", &0)?;
                    wanted("memory.oom.group", &1)?;
                }
                _ => wanted("pids.max", &bounds.processes.saturating_add(PROCESS_SLACK))?,
            }
        }
        Ok(())
    }

    /// Returns the file with a line `oom_kill N`.
    fn events(&self) -> Option<&'static str> {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        self.controllers.contains(&"memory").then_some(file)
    }
}

/// Writes to a file that must already exist.
fn set(file: &Path, value: &dyn std::fmt::Display) -> io::Result<()> {
    File::options().write(true).open(file)?.write_all(value.to_string().as_bytes())
}

/// Groups that are removed on drop.
struct Removal {
    groups: Arc<Groups>,
    directories: Vec<PathBuf>,
}

impl Drop for Removal {
    fn drop(&mut self) {
        for directory in &self.directories {
            kill_all(directory);
            release_cache(directory);
        }
        self.directories.retain(|directory| !is_removed(directory));
        self.groups.leftovers.lock().append(&mut self.directories);
    }
}

/// Group whose creation has not been completed.
struct Unfinished<'a> {
    groups: &'a Arc<Groups>,
    directories: Vec<PathBuf>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.groups.remove(std::mem::take(&mut self.directories));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.groups.remove(std::mem::take(&mut self.directories));
    }
}

/// Kills the remaining processes of the group, if the kernel supports that (version 2, Linux 5.14).
fn kill_all(directory: &Path) {
    let _ = set(&directory.join("cgroup.kill"), &1);
}

/// Releases the kernel's cache for files of the run; otherwise, the kernel keeps a removed group in memory.
fn release_cache(directory: &Path) {
    // Not supported by older kernels, and processes may not have fully ended; the group is then released later.
    let _ = set(&directory.join("memory.force_empty"), &0);
    let _ = fs::read_to_string(directory.join("memory.current"))
        .and_then(|bytes| set(&directory.join("memory.reclaim"), &bytes.trim()));
}

/// Removes the group and returns whether it is gone. Only a group without processes can be removed.
fn is_removed(directory: &Path) -> bool {
    match fs::remove_dir(directory) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Owner of a group. A process id is only meaningful within its namespace, and may be reused.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    namespace: u64,
    process: u32,
    started: u64,
}

impl Owner {
    fn own() -> Self {
        let process = std::process::id();
        Self { namespace: namespace(), process, started: started(process).unwrap_or(0) }
    }

    /// Whether the owner has certainly ended; unknown for processes of other namespaces.
    fn is_gone(&self) -> bool {
        self.namespace == namespace() && started(self.process) != Some(self.started)
    }
}

fn name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let Owner { namespace, process, started } = Owner::own();
    format!("{PREFIX}{namespace}-{process}-{started}-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn owner(name: &str) -> Option<Owner> {
    let mut numbers = name.strip_prefix(PREFIX)?.split('-').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (namespace, process, started) = (next()?, u32::try_from(next()?).ok()?, next()?);
    Some(Owner { namespace, process, started })
}

fn namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self/ns/pid").map_or(0, |entry| entry.ino())
}

/// Returns the start time of a process in ticks since boot: field 22 of proc(5).
fn started(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    text.rsplit_once(") ")?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests;
