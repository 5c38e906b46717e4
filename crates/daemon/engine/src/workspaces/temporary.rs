//! Reserved names of temporary files.

use std::os::fd::AsFd;

use rustix::fs::{FlockOperation, flock};

use super::WorkspaceError;

const PREFIX: &str = ".agentd-";
const SUFFIX: &str = ".tmp";

/// Returns the temporary name of a file; `mark` distinguishes concurrent writes.
pub(super) fn temporary_name(mark: &str) -> String {
    format!("{PREFIX}{mark}{SUFFIX}")
}

pub(super) fn is_temporary_name(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Rejects reserved names: the sweep would remove such a file.
pub(super) fn require_permanent_name(name: &str) -> Result<(), WorkspaceError> {
    let problem = "must not end in a name like `.agentd-….tmp`, which is reserved for temporary files";
    if is_temporary_name(name) { Err(WorkspaceError::BadPath { problem }) } else { Ok(()) }
}

/// Locks a file that is being written, so that the sweep does not remove it. On file systems without locks, nothing is
/// swept.
pub(super) fn lock_temporary(file: impl AsFd) {
    let _ = flock(file, FlockOperation::NonBlockingLockExclusive);
}
