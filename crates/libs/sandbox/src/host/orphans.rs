//! Boxes that were being made when their daemon was killed.
//!
//! bubblewrap's first process inside waits until its other half outside has mapped the users, and only then asks
//! to die with its parent. When the daemon is killed in between, the half outside dies with it, and the half inside
//! waits for good: the kernel offers a process that is the first of its namespace no signal that the daemon could
//! have set up before. So the next daemon ends it.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::init::tree::{self, Stat};

/// What the kernel calls a process of bubblewrap's until it has become the program.
const NAME: &str = "bwrap";

/// Ends bubblewrap's processes that were made with this state directory and have lost their daemon.
pub(crate) fn end(state_directory: &Path) {
    let ended = tree::all().filter(|process| end_one(process, state_directory).unwrap_or(false)).count();
    if ended > 0 {
        tracing::info!(ended, "processes of bubblewrap were left by a daemon that was killed, and have been ended");
    }
}

/// `None` when it went away by itself meanwhile.
fn end_one(process: &Stat, state_directory: &Path) -> Option<bool> {
    if name(process.pid)? != NAME {
        return Some(false);
    }
    // Held, so that what is ended is what was looked at.
    let held = pidfd_open(Pid::from_raw(process.pid)?, PidfdFlags::empty()).ok()?;
    let parent = name(tree::stat(process.pid)?.parent).unwrap_or_default();
    // Its parent is the half outside, whose parent is a daemon; another daemon may use this directory, too.
    let has_daemon = parent == NAME || Some(parent) == name(std::process::id().try_into().ok()?);
    if has_daemon || !is_named_in(state_directory, &fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?) {
        return Some(false);
    }
    Some(pidfd_send_signal(held, Signal::KILL).is_ok())
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
