//! The arguments of bubblewrap: a root that is made of what was named, and nothing else.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::paths::{self, Exposure};

/// Where the init finds the proxy's socket.
pub(crate) const PROXY_SOCKET: &str = "/run/proxy.sock";
/// The user and the group that the program believes to be.
const ID_INSIDE: &str = "1000";

/// `/etc` of a machine with one user.
pub(crate) const ACCOUNTS: [(&str, &str); 4] = [
    (
        "/etc/passwd",
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("/etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"),
    ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"),
];

/// What the root is made of.
#[derive(Debug)]
pub(crate) struct Root<'a> {
    pub(crate) exposures: &'a [Exposure],
    /// Descriptors with the texts of [`ACCOUNTS`].
    pub(crate) accounts: &'a [(&'static str, i32)],
    pub(crate) proxy_socket: Option<&'a Path>,
    pub(crate) tmp_bytes: u64,
    pub(crate) shared_memory_bytes: u64,
}

pub(crate) fn find() -> Option<PathBuf> {
    ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"].into_iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Everything up to the command that runs inside.
pub(crate) fn arguments(root: &Root<'_>) -> Vec<OsString> {
    let mut arguments = Arguments(Vec::new());
    arguments
        .words(["--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session"])
        .words(["--die-with-parent", "--as-pid-1", "--clearenv", "--uid", ID_INSIDE, "--gid", ID_INSIDE])
        .words(["--hostname", "sandbox"]);
    for path in paths::system_directories() {
        match path.read_link() {
            // /bin and its like are often links into /usr.
            Ok(target) => arguments.words(["--symlink"]).paths([target.as_path(), path]),
            Err(_) => arguments.words(["--ro-bind"]).paths([path, path]),
        };
    }
    for path in paths::configuration() {
        arguments.words(["--ro-bind"]).paths([path.as_path(), path.as_path()]);
    }
    for (path, descriptor) in root.accounts {
        arguments.words(["--ro-bind-data", &descriptor.to_string(), path]);
    }
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
    // The root itself is a file system in memory without a bound, so nothing may be written there.
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
