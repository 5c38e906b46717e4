//! Directories of a daemon's own in the state directory, which other daemons of the machine may share.

use std::io;
use std::path::Path;

use tempfile::TempDir;

const KINDS: [&str; 3] = ["run", "canary", "etc"];

/// Makes a directory that is removed when it is dropped. Its name tells which process it belongs to.
pub(crate) fn make(kind: &str, state_directory: &Path) -> io::Result<TempDir> {
    debug_assert!(KINDS.contains(&kind));
    tempfile::Builder::new().prefix(&format!("{kind}-{}-", std::process::id())).tempdir_in(state_directory)
}

/// Whether the name is that of a directory whose daemon has ended. One with this process's number is of an earlier process,
/// because this is asked before the first directory is made.
pub(crate) fn is_left_behind(name: &str) -> bool {
    let Some(rest) = KINDS.iter().find_map(|kind| name.strip_prefix(kind)?.strip_prefix('-')) else { return false };
    match rest.split_once('-').and_then(|(owner, _)| owner.parse::<u32>().ok()) {
        Some(owner) => owner == std::process::id() || !is_daemon(owner),
        // Of a version that did not name the process.
        None => true,
    }
}

/// Whether the process runs the same program as this one.
fn is_daemon(process: u32) -> bool {
    let program = |process: &str| std::fs::read(format!("/proc/{process}/comm")).ok();
    program(&process.to_string()).is_some_and(|name| Some(name) == program("self"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_ended_daemons_are_left_behind() {
        let own = std::process::id();
        for (name, is_left) in [
            ("run-x1y2", true),
            ("etc-x1y2", true),
            (&*format!("etc-{own}-x"), true),
            ("run-4294967295-x", true),
            ("vm", false),
            ("runs-1-x", false),
        ] {
            assert_eq!(is_left_behind(name), is_left, "{name}");
        }
        // The process that started this one is no daemon of this program, so what has its number is left behind.
        let parent = rustix::process::getppid().map_or(1, |parent| parent.as_raw_nonzero().get());
        assert_eq!(is_left_behind(&format!("run-{parent}-x")), !is_daemon(parent.unsigned_abs()));
    }
}
