//! Where groups can be made, or why nowhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Groups, Place, Version, set};
use crate::plan::Bounds;

/// Where the daemon goes when its own group is to be divided: processes and groups with bounds
/// cannot be side by side in one group of version 2.
const LEAF: &str = "agentd-daemon";
/// What service managers mark a group with that they leave to the service.
const MARKS: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// Why there are no groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) reason: String,
    pub(crate) remedy: Option<String>,
}

impl Missing {
    pub(crate) fn unwanted() -> Self {
        Self::new("control groups are not wanted", None)
    }

    pub(crate) fn failed(doubt: &impl std::fmt::Display) -> Self {
        Self::new(format!("a run in a control group failed: {doubt}"), None)
    }

    fn new(reason: impl Into<String>, remedy: Option<&str>) -> Self {
        Self { reason: reason.into(), remedy: remedy.map(str::to_owned) }
    }
}

const DELEGATE: &str = "set `Delegate=memory pids` and `DelegateSubgroup=daemon` in the daemon's systemd unit, or start \
                        it by `systemd-run --scope -p Delegate=yes` (a container: give it a writable /sys/fs/cgroup)";

/// Finds the places, tries them, and removes what dead daemons left there.
///
/// # Errors
/// Why there are none.
pub(crate) fn find() -> Result<Arc<Groups>, Missing> {
    let text = |path: &str| fs::read_to_string(path).map_err(|error| Missing::new(format!("{path}: {error}"), None));
    let places = places(&text("/proc/self/mountinfo")?, &text("/proc/self/cgroup")?)?;
    let groups = Arc::new(Groups { places, leftovers: Mutex::new(Vec::new()) });
    groups.clear();
    // With the least that there can be: nothing runs in it.
    let bounds = Bounds { memory_bytes: 32 << 20, processes: 1, open_files: 0, file_bytes: 0, disk_bytes: 0, files: 0 };
    match groups.make(&bounds) {
        Ok(_) => Ok(groups),
        Err(error) => {
            let directory = groups.places.first().map(|place| place.directory.display().to_string());
            let reason = format!("no control group can be made in {}: {error}", directory.unwrap_or_default());
            Err(Missing::new(reason, Some(DELEGATE)))
        }
    }
}

pub(super) fn places(mounts: &str, own: &str) -> Result<Vec<Place>, Missing> {
    if let Some(own_directory) = version_one(mounts, own, "memory") {
        let place =
            |controllers, own: PathBuf| Place { version: Version::One, controllers, directory: own.clone(), own };
        let mut places = vec![place(&["memory"], own_directory)];
        // Processes are counted by the init as well.
        places.extend(version_one(mounts, own, "pids").map(|own| place(&["pids"], own)));
        return Ok(places);
    }
    let Some(own_path) = own.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Err(Missing::new("this kernel has no control groups that bound memory", None));
    };
    let found = mounts.lines().filter_map(Mount::parse).filter(|mount| mount.kind == "cgroup2");
    let found: Vec<PathBuf> = found.filter_map(|mount| mount.directory(own_path)).collect();
    let Some(own) = found.iter().find(|own| has(own, "cgroup.controllers", "memory")) else {
        let reason = match found.first() {
            Some(own) => format!("the control group of the daemon, {}, may not bound memory", own.display()),
            None => "control groups are not mounted where the daemon could see its own".to_owned(),
        };
        return Err(Missing::new(reason, Some(DELEGATE)));
    };
    let directory = divisible(own, own_path == "/")?;
    // The daemon may have stepped down.
    let own = if directory == *own && own.join(LEAF).exists() { own.join(LEAF) } else { own.clone() };
    Ok(vec![Place { version: Version::Two, controllers: &["memory", "pids"], directory, own }])
}

/// The group of version 2 in which groups with bounds can be made.
fn divisible(own: &Path, is_outermost: bool) -> Result<PathBuf, Missing> {
    if has(own, "cgroup.subtree_control", "memory") {
        return Ok(own.to_owned());
    }
    if let Some(above) = own.parent()
        && (is_delegated(above) || own.file_name().is_some_and(|name| name == LEAF))
    {
        return Ok(above.to_owned());
    }
    if !is_outermost && !is_delegated(own) {
        let reason = format!("the control group of the daemon, {}, is not left to it", own.display());
        return Err(Missing::new(reason, Some(DELEGATE)));
    }
    step_down(own).map_err(|reason| Missing::new(reason, Some(DELEGATE)))?;
    Ok(own.to_owned())
}

/// Moves the daemon, which must be alone with its children, one level down, so that its group can be divided.
fn step_down(own: &Path) -> Result<(), String> {
    let fault =
        |error: io::Error| format!("the control group of the daemon, {}, cannot be divided: {error}", own.display());
    let processes = fs::read_to_string(own.join("cgroup.procs")).map_err(fault)?;
    let processes: Vec<&str> = processes.lines().collect();
    if !processes.iter().all(|process| is_ours(process)) {
        return Err(format!("the control group of the daemon, {}, holds processes of others", own.display()));
    }
    let leaf = own.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(fault(error)),
        _ => {}
    }
    let move_all = |to: &Path| processes.iter().try_for_each(|process| set(&to.join("cgroup.procs"), process));
    let controllers = if has(own, "cgroup.controllers", "pids") { "+memory +pids" } else { "+memory" };
    move_all(&leaf).and_then(|()| set(&own.join("cgroup.subtree_control"), &controllers)).map_err(|error| {
        // Back to how it was, as far as that can be done.
        let _ = move_all(own);
        let _ = fs::remove_dir(&leaf);
        fault(error)
    })
}

/// The daemon, or a child of it.
fn is_ours(process: &str) -> bool {
    let own = std::process::id();
    let is_child = || {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        text.rsplit_once(") ")?.1.split_ascii_whitespace().nth(1)?.parse::<u32>().ok()
    };
    process.parse() == Ok(own) || is_child() == Some(own)
}

fn is_delegated(group: &Path) -> bool {
    let mut value = [0; 8];
    MARKS.iter().any(|mark| rustix::fs::getxattr(group, *mark, &mut value).is_ok_and(|length| value[..length] == *b"1"))
}

fn has(group: &Path, file: &str, controller: &str) -> bool {
    let text = fs::read_to_string(group.join(file)).unwrap_or_default();
    text.split_ascii_whitespace().any(|word| word == controller)
}

/// The daemon's own group among those of this controller.
fn version_one(mounts: &str, own: &str, controller: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|word| word == controller).then_some(path)
    })?;
    let mut mounts = mounts.lines().filter_map(Mount::parse);
    mounts
        .find(|mount| mount.kind == "cgroup" && mount.options.split(',').any(|word| word == controller))?
        .directory(path)
}

/// A line of /proc/self/mountinfo.
struct Mount<'a> {
    /// What of the file system is mounted.
    root: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut system = system.split(' ');
        let (kind, options) = (system.next()?, system.nth(1)?);
        Some(Self { root, at, kind, options })
    }

    /// Where the group of this path is seen; `None` when it lies outside of what is mounted.
    fn directory(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(self.root).ok()?;
        // Joined with nothing, a path would end in a slash.
        let directory = if below.as_os_str().is_empty() { self.at.into() } else { Path::new(self.at).join(below) };
        Path::new(&directory).is_dir().then_some(directory)
    }
}
