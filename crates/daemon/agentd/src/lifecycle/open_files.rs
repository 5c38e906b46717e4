//! How many files the process may hold open, and how many of those may be connections.
//!
//! Systems start programs with a soft limit of 1024, for the sake of old code that this program has
//! none of. The database, calls to vendors and children need files too, so connections never get all.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than all connections with a call to a vendor each would need.
const WANTED: u64 = 32 * 1024;
/// More connections than this wait in the kernel's queue, however many files there may be.
const MAX_CONNECTIONS: u64 = 8192;
/// Left for everything else, or half of all where there are few.
const RESERVE: u64 = 512;

/// Raises the soft limit as far as it is wanted and allowed; answers what it is now.
pub(super) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let present = current.unwrap_or(u64::MAX);
    let reachable = maximum.unwrap_or(u64::MAX).min(WANTED);
    if present >= reachable {
        return present;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum }) {
        Ok(()) => reachable,
        Err(error) => {
            tracing::warn!(%error, limit = present, "the limit of open files cannot be raised");
            present
        }
    }
}

/// How many connections there may be with so many open files.
pub(super) fn connection_places(open_files: u64) -> usize {
    let places = open_files.saturating_sub(RESERVE.min(open_files / 2)).clamp(1, MAX_CONNECTIONS);
    usize::try_from(places).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_get_all_files() {
        assert_eq!(connection_places(256), 128);
        assert_eq!(connection_places(1024), 512);
        assert_eq!(connection_places(4096), 3584);
        assert_eq!(connection_places(WANTED), 8192);
        assert_eq!(connection_places(0), 1);
        let limit = raise_limit();
        assert_eq!(raise_limit(), limit);
    }
}
