//! Control groups: what a run takes from the machine, counted and bounded by the kernel itself,
//! with all that no process shows as its own (buffers of sockets and pipes, files in memory and
//! their entries, pages that were dropped but are kept by others).
//!
//! Only the program and what it starts are in the group; the init is not, so that it lives to say
//! why the program ended. The group is a wall a little above the limit: the init's own meter, which
//! counts what programs know as their memory, ends most runs before.
//!
//! Invariants: a group is gone when its run is over, and at the latest when the next daemon starts
//! in the same place; no group of another living daemon is ever touched.

mod find;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

pub(crate) use find::{Missing, find};

use crate::plan::Bounds;

/// Starts the name of every group of a run.
const PREFIX: &str = "agentd-run-";
/// What the kernel may hold for a run beside the memory that its limit speaks of: page tables,
/// stacks, buffers.
const ABOVE_LIMIT: u64 = 8;
/// Threads of programs that are ending count for a moment longer.
const PROCESS_SLACK: u64 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where groups are made: one place in version 2, one for each controller in version 1.
#[derive(Debug)]
struct Place {
    version: Version,
    controllers: &'static [&'static str],
    /// The daemon is here or beside it; groups are made in here.
    directory: PathBuf,
    /// Where the daemon itself is.
    own: PathBuf,
}

/// The places where this daemon makes its groups.
#[derive(Debug)]
pub(crate) struct Groups {
    places: Vec<Place>,
    /// What could not be removed yet, because a process in it had not quite ended.
    leftovers: Mutex<Vec<PathBuf>>,
}

/// The group of one run. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Group {
    groups: Arc<Groups>,
    directories: Vec<PathBuf>,
    /// Whoever writes `0` to each is in the group.
    pub(crate) entrances: Vec<Arc<OwnedFd>>,
    /// Says how many processes the kernel ended for want of memory.
    pub(crate) events: Arc<OwnedFd>,
    /// Says how many bytes buffers of TCP have, where the kernel does not count them with the rest.
    pub(crate) tcp: Option<Arc<OwnedFd>>,
}

impl std::fmt::Display for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(place) = self.places.first() else { return f.write_str("none") };
        let version = match place.version {
            Version::One => 1,
            Version::Two => 2,
        };
        write!(f, "each run has a control group of its own (version {version}) in {}", place.directory.display())
    }
}

impl Groups {
    /// # Errors
    /// When the kernel refuses one.
    pub(crate) fn make(self: &Arc<Self>, bounds: &Bounds) -> io::Result<Group> {
        self.remove_leftovers();
        let name = name();
        let mut made = Unfinished { groups: self, directories: Vec::new() };
        let (mut entrances, mut events, mut tcp) = (Vec::new(), None, None);
        for place in &self.places {
            let directory = place.directory.join(&name);
            fs::create_dir(&directory)?;
            made.directories.push(directory.clone());
            place.bound(&directory, bounds)?;
            entrances.push(Arc::new(File::options().write(true).open(directory.join("cgroup.procs"))?.into()));
            if let Some(file) = place.events() {
                events = Some(Arc::new(File::open(directory.join(file))?.into()));
                tcp =
                    File::open(directory.join("memory.kmem.tcp.usage_in_bytes")).ok().map(|file| Arc::new(file.into()));
            }
        }
        let events = events.ok_or(io::ErrorKind::Unsupported)?;
        let directories = std::mem::take(&mut made.directories);
        Ok(Group { groups: Arc::clone(self), directories, entrances, events, tcp })
    }

    /// Begins the wait that the kernel needs before any process changes its group, some
    /// milliseconds in which a box can be made. The daemon stays where it is.
    pub(crate) fn warm_up(&self) {
        if let Some(place) = self.places.first() {
            // Without it the first process that enters waits longer.
            let _ = fs::write(place.own.join("cgroup.procs"), "0");
        }
    }

    /// Beside everything else, because the kernel may have to write files first.
    fn remove(self: &Arc<Self>, directories: Vec<PathBuf>) {
        let removal = Removal { groups: Arc::clone(self), directories };
        // A runtime that ends drops what it has not begun, which removes as well.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(|| drop(removal));
        }
    }

    fn remove_leftovers(&self) {
        self.leftovers.lock().retain(|directory| !is_removed(directory));
    }

    /// Removes what daemons left that ended without being able to.
    fn clear(&self) {
        for place in &self.places {
            for entry in fs::read_dir(&place.directory).into_iter().flatten().flatten() {
                let is_left = entry.file_name().to_str().and_then(owner).is_some_and(|owner| owner.is_gone());
                if is_left && !is_removed(&entry.path()) {
                    end(&entry.path());
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

impl Place {
    fn bound(&self, group: &Path, bounds: &Bounds) -> io::Result<()> {
        let memory = bounds.memory_bytes + bounds.memory_bytes / ABOVE_LIMIT;
        let needed = |file: &str, value: &dyn std::fmt::Display| set(&group.join(file), value);
        // Not every kernel has these.
        let wanted = |file: &str, value: &dyn std::fmt::Display| match needed(file, value) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        };
        for controller in self.controllers {
            match (*controller, self.version) {
                ("memory", Version::One) => {
                    needed("memory.limit_in_bytes", &memory)?;
                    wanted("memory.memsw.limit_in_bytes", &memory)?;
                    // A count of its own beside the first. Connections pass it, so the init looks at it too.
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

    /// The file with a line `oom_kill N`.
    fn events(&self) -> Option<&'static str> {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        self.controllers.contains(&"memory").then_some(file)
    }
}

/// These files are there or not; none is ever made.
fn set(file: &Path, value: &dyn std::fmt::Display) -> io::Result<()> {
    File::options().write(true).open(file)?.write_all(value.to_string().as_bytes())
}

/// Removes these groups when it is dropped.
struct Removal {
    groups: Arc<Groups>,
    directories: Vec<PathBuf>,
}

impl Drop for Removal {
    fn drop(&mut self) {
        for directory in &self.directories {
            end(directory);
            empty(directory);
        }
        self.directories.retain(|directory| !is_removed(directory));
        self.groups.leftovers.lock().append(&mut self.directories);
    }
}

/// A group that could not be made whole.
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

/// Ends whatever is still in the group, where the kernel knows how (version 2, Linux 5.14).
fn end(directory: &Path) {
    let _ = set(&directory.join("cgroup.kill"), &1);
}

/// Lets go of what the kernel keeps of files that the run read or wrote: a removed group stays in
/// the kernel for as long as that is remembered.
fn empty(directory: &Path) {
    // Older kernels cannot, and processes may not have ended quite; then it stays a while.
    let _ = set(&directory.join("memory.force_empty"), &0);
    let _ = fs::read_to_string(directory.join("memory.current"))
        .and_then(|bytes| set(&directory.join("memory.reclaim"), &bytes.trim()));
}

/// Whether the group is gone now. Only one without processes can be removed.
fn is_removed(directory: &Path) -> bool {
    match fs::remove_dir(directory) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whose group it is. A process number means nothing without its namespace, and may be given again.
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

    /// Whether it has certainly ended: about processes of other namespaces nothing is known.
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

/// When a process started, in ticks since the machine did: field 22 of proc(5).
fn started(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    text.rsplit_once(") ")?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests;
