//! Client side of the private socket. Connects only to a daemon of a trusted user.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tokio::net::UnixStream;

use super::error::CliError;

const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Connects to the daemon at `path`; `None` if no daemon listens there.
///
/// # Errors
/// `PermissionDenied` if the socket may not be opened. `ForeignSocket` if the socket, its directory or the process at the other
/// end belongs to another user than root or the effective user, or if others may write the socket or its directory. To
/// root, the owner of the data directory is trusted as well.
pub(super) async fn connect(path: &Path) -> Result<Option<UnixStream>, CliError> {
    let untrusted = |problem: String| CliError::ForeignSocket { path: path.to_path_buf(), problem };
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::PermissionDenied => Err(CliError::PermissionDenied { path: path.to_path_buf(), source }),
        // No socket, or a leftover socket of a killed daemon.
        _ => Ok(None),
    };
    let data_dir = path.parent().unwrap_or(Path::new("/"));
    let (found_dir, found_socket) = match data_dir.metadata().and_then(|dir| Ok((dir, path.symlink_metadata()?))) {
        Ok(found) => found,
        Err(error) => return failed(error),
    };
    let user = rustix::process::geteuid().as_raw();
    let is_trusted = |owner: u32| owner == 0 || owner == user || (user == 0 && owner == found_dir.uid());
    for (part, found) in [(data_dir, &found_dir), (path, &found_socket)] {
        if !is_trusted(found.uid()) {
            return Err(untrusted(format!("{} belongs to user {}", part.display(), found.uid())));
        }
        let is_sticky = found.is_dir() && found.mode() & STICKY != 0;
        if found.mode() & GROUP_OR_OTHERS_WRITE != 0 && !is_sticky {
            let shown = part.display();
            return Err(untrusted(format!("other users may write {shown}, close it with `chmod go-w {shown}`")));
        }
    }
    let stream = match UnixStream::connect(path).await {
        Ok(stream) => stream,
        Err(error) => return failed(error),
    };
    let peer = stream.peer_cred().map_err(|source| CliError::Machine { source })?.uid();
    if !is_trusted(peer) {
        return Err(untrusted(format!("the process that listens on it runs as user {peer}")));
    }
    Ok(Some(stream))
}
