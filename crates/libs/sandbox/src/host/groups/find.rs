//! Detection of the location where groups can be created.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{GroupLocation, Groups, Version, set};
use crate::plan::Bounds;

/// Child group to which the daemon moves if its own group is to be divided: in version 2, a group cannot contain both
/// processes and limited subgroups.
const LEAF: &str = "agentd-daemon";
/// Attributes with which service managers mark delegated groups.
const DELEGATION_ATTRIBUTES: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// Reason why groups are unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupsUnavailable {
    pub(crate) reason: String,
    pub(crate) remedy: Option<String>,
}

impl GroupsUnavailable {
    pub(crate) fn unwanted() -> Self {
        Self::new("control groups are disabled", None)
    }

    pub(crate) fn failed(doubt: &impl std::fmt::Display) -> Self {
        Self::new(format!("a test run in a control group failed: {doubt}"), None)
    }

    fn new(reason: impl Into<String>, remedy: Option<&str>) -> Self {
        Self { reason: reason.into(), remedy: remedy.map(str::to_owned) }
    }
}

const DELEGATE: &str = "set `Delegate=memory pids` and `DelegateSubgroup=daemon` in the daemon's systemd unit, or start \
                        it with `systemd-run --scope -p Delegate=yes` (a container: give it a writable /sys/fs/cgroup)";

/// Detects the locations, tests them, and removes groups left by ended daemons.
///
/// # Errors
/// Returns the reason why groups are unavailable.
pub(crate) fn find() -> Result<Arc<Groups>, GroupsUnavailable> {
    let text =
        |path: &str| fs::read_to_string(path).map_err(|error| GroupsUnavailable::new(format!("{path}: {error}"), None));
    let locations = locations(&text("/proc/self/mountinfo")?, &text("/proc/self/cgroup")?)?;
    let groups = Arc::new(Groups { locations, leftovers: Mutex::new(Vec::new()) });
    groups.clear();
    // With minimal limits, since nothing runs in it.
    let bounds = Bounds { memory_bytes: 32 << 20, processes: 1, open_files: 0, file_bytes: 0, disk_bytes: 0, files: 0 };
    match groups.create(&bounds) {
        Ok(_) => Ok(groups),
        Err(error) => {
            let directory = groups.locations.first().map(|location| location.directory.display().to_string());
            let reason = format!("failed to create a control group in {}: {error}", directory.unwrap_or_default());
            Err(GroupsUnavailable::new(reason, Some(DELEGATE)))
        }
    }
}

pub(super) fn locations(mounts: &str, own: &str) -> Result<Vec<GroupLocation>, GroupsUnavailable> {
    if let Some(own_directory) = version_one(mounts, own, "memory") {
        let location = |controllers, own: PathBuf| GroupLocation {
            version: Version::One,
            controllers,
            directory: own.clone(),
            own,
        };
        let mut locations = vec![location(&["memory"], own_directory)];
        // The init counts processes too.
        locations.extend(version_one(mounts, own, "pids").map(|own| location(&["pids"], own)));
        return Ok(locations);
    }
    let Some(own_path) = own.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Err(GroupsUnavailable::new("this kernel has no control groups that limit memory", None));
    };
    let found = mounts.lines().filter_map(Mount::parse).filter(|mount| mount.kind == "cgroup2");
    let found: Vec<PathBuf> = found.filter_map(|mount| mount.directory(own_path)).collect();
    let Some(own) = found.iter().find(|own| has(own, "cgroup.controllers", "memory")) else {
        let reason = match found.first() {
            Some(own) => format!("the daemon's control group {} does not control memory", own.display()),
            None => "the daemon's control group is not mounted".to_owned(),
        };
        return Err(GroupsUnavailable::new(reason, Some(DELEGATE)));
    };
    let directory = divisible(own, own_path == "/")?;
    // The daemon may already be in its child group.
    let own = if directory == *own && own.join(LEAF).exists() { own.join(LEAF) } else { own.clone() };
    Ok(vec![GroupLocation { version: Version::Two, controllers: &["memory", "pids"], directory, own }])
}

/// Returns the version 2 group in which limited groups can be created.
fn divisible(own: &Path, is_outermost: bool) -> Result<PathBuf, GroupsUnavailable> {
    if has(own, "cgroup.subtree_control", "memory") {
        return Ok(own.to_owned());
    }
    if let Some(above) = own.parent()
        && (is_delegated(above) || own.file_name().is_some_and(|name| name == LEAF))
    {
        return Ok(above.to_owned());
    }
    if !is_outermost && !is_delegated(own) {
        let reason = format!("the daemon's control group {} is not delegated to it", own.display());
        return Err(GroupsUnavailable::new(reason, Some(DELEGATE)));
    }
    move_to_leaf(own).map_err(|reason| GroupsUnavailable::new(reason, Some(DELEGATE)))?;
    Ok(own.to_owned())
}

/// Moves the daemon, which must be alone with its children, into a child group, so that its group can be divided.
fn move_to_leaf(own: &Path) -> Result<(), String> {
    let fault = |error: io::Error| format!("failed to divide the daemon's control group {}: {error}", own.display());
    let processes = fs::read_to_string(own.join("cgroup.procs")).map_err(fault)?;
    let processes: Vec<&str> = processes.lines().collect();
    if !processes.iter().all(|process| is_ours(process)) {
        return Err(format!("the daemon's control group {} contains other processes", own.display()));
    }
    let leaf = own.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(fault(error)),
        _ => {}
    }
    let move_all = |to: &Path| processes.iter().try_for_each(|process| set(&to.join("cgroup.procs"), process));
    let controllers = if has(own, "cgroup.controllers", "pids") { "+memory +pids" } else { "+memory" };
    move_all(&leaf).and_then(|()| set(&own.join("cgroup.subtree_control"), &controllers)).map_err(|error| {
        // Restores the original state as far as possible.
        let _ = move_all(own);
        let _ = fs::remove_dir(&leaf);
        fault(error)
    })
}

/// Whether the process is the daemon or one of its children.
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
    DELEGATION_ATTRIBUTES
        .iter()
        .any(|mark| rustix::fs::getxattr(group, *mark, &mut value).is_ok_and(|length| value[..length] == *b"1"))
}

fn has(group: &Path, file: &str, controller: &str) -> bool {
    let text = fs::read_to_string(group.join(file)).unwrap_or_default();
    text.split_ascii_whitespace().any(|word| word == controller)
}

/// Returns the daemon's own group for this controller.
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

/// Line of /proc/self/mountinfo.
struct Mount<'a> {
    /// Root of the mount within the file system.
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

    /// Returns the directory of a group; `None` if it is outside the mount.
    fn directory(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(self.root).ok()?;
        // Joining an empty path would add a trailing slash.
        let directory = if below.as_os_str().is_empty() { self.at.into() } else { Path::new(self.at).join(below) };
        Path::new(&directory).is_dir().then_some(directory)
    }
}
