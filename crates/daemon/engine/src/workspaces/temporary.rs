//! The names of files until they are whole, which nothing else may have.

use std::os::fd::AsFd;

use rustix::fs::{FlockOperation, flock};

use super::WorkspaceError;

const PREFIX: &str = ".agentd-";
const SUFFIX: &str = ".tmp";

/// The name of a file until it is whole; `mark` tells it from others that are written at the same time.
pub(super) fn temporary_name(mark: &str) -> String {
    format!("{PREFIX}{mark}{SUFFIX}")
}

pub(super) fn is_temporary_name(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Refuses such a name for anything else: the sweep would remove the file.
pub(super) fn require_permanent_name(name: &str) -> Result<(), WorkspaceError> {
    let problem = "must not end in a name like `.agentd-….tmp`, which is for files that are not whole yet";
    if is_temporary_name(name) { Err(WorkspaceError::BadPath { problem }) } else { Ok(()) }
}

/// Keeps a file that is being written from the sweep. Where the file system knows no locks, nothing is swept.
pub(super) fn lock_temporary(file: impl AsFd) {
    let _ = flock(file, FlockOperation::NonBlockingLockExclusive);
}
