//! Limit on open files, and the resulting limit on connections.
//!
//! Systems start processes with a soft limit of 1024 for compatibility with `select(2)`, which this program does not
//! use. The database, outgoing requests and child processes need file descriptors too, so connections never get all of
//! them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Desired limit: more than all connections need with one outgoing request each.
const DESIRED_LIMIT: u64 = 32 * 1024;
/// Maximum number of connections regardless of the limit on files; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: u64 = 8192;
/// Number of files reserved for everything else, or half of all if there are few.
const RESERVED_FILES: u64 = 512;

/// Raises the soft limit up to [`DESIRED_LIMIT`] as far as allowed, and returns the resulting limit.
pub(super) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let present = current.unwrap_or(u64::MAX);
    let reachable = maximum.unwrap_or(u64::MAX).min(DESIRED_LIMIT);
    if present >= reachable {
        return present;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum }) {
        Ok(()) => reachable,
        Err(error) => {
            tracing::warn!(%error, limit = present, "failed to raise the limit of open files");
            present
        }
    }
}

/// Maximum number of connections for a limit of open files.
pub(super) fn max_connections(open_files: u64) -> usize {
    let connections = open_files.saturating_sub(RESERVED_FILES.min(open_files / 2)).clamp(1, MAX_CONNECTIONS);
    usize::try_from(connections).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_get_all_files() {
        assert_eq!(max_connections(256), 128);
        assert_eq!(max_connections(1024), 512);
        assert_eq!(max_connections(4096), 3584);
        assert_eq!(max_connections(DESIRED_LIMIT), 8192);
        assert_eq!(max_connections(0), 1);
        let limit = raise_limit();
        assert_eq!(raise_limit(), limit);
    }
}
