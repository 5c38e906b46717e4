//! Per-daemon directories in the state directory, which several daemons of the machine may share.

use std::io;
use std::path::Path;

use tempfile::TempDir;

const KINDS: [&str; 3] = ["run", "canary", "etc"];

/// Creates a directory that is removed on drop. Its name contains the process id.
pub(crate) fn create(kind: &str, state_directory: &Path) -> io::Result<TempDir> {
    debug_assert!(KINDS.contains(&kind));
    tempfile::Builder::new().prefix(&format!("{kind}-{}-", std::process::id())).tempdir_in(state_directory)
}

/// Whether the name is that of a directory whose daemon has ended. A directory with this process's id belongs to an
/// earlier process, because this is checked before the first directory is created.
pub(crate) fn is_left_over(name: &str) -> bool {
    let Some(rest) = KINDS.iter().find_map(|kind| name.strip_prefix(kind)?.strip_prefix('-')) else { return false };
    match rest.split_once('-').and_then(|(owner, _)| owner.parse::<u32>().ok()) {
        Some(owner) => owner == std::process::id() || !is_daemon(owner),
        // Created by a version that did not include the process id.
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
    fn only_directories_of_ended_daemons_are_left_over() {
        let own = std::process::id();
        for (name, is_left) in [
            ("run-x1y2", true),
            ("etc-x1y2", true),
            (&*format!("etc-{own}-x"), true),
            ("run-4294967295-x", true),
            ("vm", false),
            ("runs-1-x", false),
        ] {
            assert_eq!(is_left_over(name), is_left, "{name}");
        }
        // The parent process is not a daemon of this program, so a directory with its id is left over.
        let parent = rustix::process::getppid().map_or(1, |parent| parent.as_raw_nonzero().get());
        assert_eq!(is_left_over(&format!("run-{parent}-x")), !is_daemon(parent.unsigned_abs()));
    }
}
