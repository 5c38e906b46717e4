//! Arguments of bubblewrap: a root that contains only the given paths.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::paths::{self, Exposure};

/// Path of the proxy's socket for the init.
pub(crate) const PROXY_SOCKET: &str = "/run/proxy.sock";
/// User and group id as seen by the program.
const ID_INSIDE: &str = "1000";

/// Content of the root.
#[derive(Debug)]
pub(crate) struct Root<'a> {
    pub(crate) exposures: &'a [Exposure],
    /// Directory that is mounted as `/etc`.
    pub(crate) etc: &'a Path,
    pub(crate) proxy_socket: Option<&'a Path>,
    pub(crate) tmp_bytes: u64,
    pub(crate) shared_memory_bytes: u64,
}

pub(crate) fn find() -> Option<PathBuf> {
    ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"].into_iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Returns all arguments up to the command that runs inside.
pub(crate) fn arguments(root: &Root<'_>) -> Vec<OsString> {
    let mut arguments = Arguments(Vec::new());
    arguments
        .words(["--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session"])
        .words(["--die-with-parent", "--as-pid-1", "--clearenv", "--uid", ID_INSIDE, "--gid", ID_INSIDE])
        .words(["--hostname", "sandbox"]);
    for path in paths::system_directories() {
        match path.read_link() {
            // Directories such as /bin are often links into /usr.
            Ok(target) => arguments.words(["--symlink"]).paths([target.as_path(), path]),
            Err(_) => arguments.words(["--ro-bind"]).paths([path, path]),
        };
    }
    arguments.words(["--ro-bind"]).paths([root.etc, Path::new("/etc")]);
    arguments
        .words(["--proc", "/proc", "--dev", "/dev"])
        .words(["--perms", "1777", "--size", &root.shared_memory_bytes.to_string(), "--tmpfs", "/dev/shm"])
        .words(["--remount-ro", "/dev"])
        .words(["--perms", "1777", "--size", &root.tmp_bytes.to_string(), "--tmpfs", "/tmp"]);
    for exposure in root.exposures {
        let bind = if exposure.writable { "--bind" } else { "--ro-bind" };
        arguments.words([bind]).paths([exposure.path.as_path(), exposure.path.as_path()]);
    }
    if let Some(socket) = root.proxy_socket {
        arguments.words(["--bind"]).paths([socket, Path::new(PROXY_SOCKET)]);
    }
    // The root itself is an in-memory file system without a limit, so it must be read-only.
    arguments.words(["--remount-ro", "/", "--chdir", "/", "--"]);
    arguments.0
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn words<const N: usize>(&mut self, words: [&str; N]) -> &mut Self {
        self.0.extend(words.map(OsString::from));
        self
    }

    fn paths<const N: usize>(&mut self, paths: [&Path; N]) -> &mut Self {
        self.0.extend(paths.map(|path| path.as_os_str().to_owned()));
        self
    }
}
