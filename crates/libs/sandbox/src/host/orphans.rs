//! Incomplete sandboxes of a killed daemon.
//!
//! bubblewrap's first process inside waits until its outer half has mapped the users, and only then sets its parent
//! death signal. If the daemon is killed in between, the outer half dies with it, and the inner half waits forever. The
//! daemon cannot set a parent death signal for the first process of a namespace earlier. Therefore the next daemon kills
//! it.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::init::tree::{self, Stat};

/// Kernel name of a bubblewrap process until it executes the program.
const NAME: &str = "bwrap";

/// Kills bubblewrap processes that were started with this state directory and have lost their daemon.
pub(crate) fn kill_orphans(state_directory: &Path) {
    let ended = tree::all().filter(|process| kill_if_orphaned(process, state_directory).unwrap_or(false)).count();
    if ended > 0 {
        tracing::info!(ended, "killed orphaned bubblewrap processes");
    }
}

/// Kills the process if it is orphaned; `None` if it has ended meanwhile.
fn kill_if_orphaned(process: &Stat, state_directory: &Path) -> Option<bool> {
    if name(process.pid)? != NAME {
        return Some(false);
    }
    // Held so that the process killed is the one that was checked.
    let handle = pidfd_open(Pid::from_raw(process.pid)?, PidfdFlags::empty()).ok()?;
    let parent = name(tree::stat(process.pid)?.parent).unwrap_or_default();
    // Its parent is the outer half, whose parent is a daemon; another daemon may use this directory too.
    let has_daemon = parent == NAME || Some(parent) == name(std::process::id().try_into().ok()?);
    if has_daemon || !is_named_in(state_directory, &fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?) {
        return Some(false);
    }
    Some(pidfd_send_signal(handle, Signal::KILL).is_ok())
}

fn name(pid: i32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// Whether one of the arguments is in this directory.
fn is_named_in(directory: &Path, command_line: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let arguments = command_line.split(|byte| *byte == 0);
    arguments.map(|argument| Path::new(std::ffi::OsStr::from_bytes(argument))).any(|path| path.starts_with(directory))
}
