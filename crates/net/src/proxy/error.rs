//! Why a proxy could not start.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("no socket could be made at {}; check that its folder exists and may be written to", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error("{} is in use by another process or is not a socket; choose another path or remove it", path.display())]
    Occupied { path: PathBuf },
    #[error("the socket {} could not be given to user {uid}; only root can do that", path.display())]
    Owner { path: PathBuf, uid: u32, source: io::Error },
    #[error("no port could be opened on 127.0.0.1")]
    Port { source: io::Error },
}
