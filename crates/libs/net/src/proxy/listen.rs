//! Sockets of a proxy.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};

const BACKLOG: i32 = 128;

/// Reason why a proxy could not start.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("could not create a socket at {}; check that its directory exists and is writable", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error("{} is in use by another process or is not a socket; choose another path or remove it", path.display())]
    Occupied { path: PathBuf },
    #[error("could not change the owner of the socket {} to user {uid}; this requires root", path.display())]
    Owner { path: PathBuf, uid: u32, source: io::Error },
    #[error("could not open a port on 127.0.0.1")]
    Port { source: io::Error },
}

/// Address on which the proxy accepts clients.
#[derive(Debug, Clone)]
pub enum ProxyListener {
    /// Socket file of mode 0600. A file left by a terminated process is replaced. With an `owner`, the file is given to
    /// that user, which requires root.
    Unix { path: PathBuf, owner: Option<SocketOwner> },
    /// `127.0.0.1`, on a port chosen by the system. Every user of the machine can connect to it, so each request must
    /// carry the credential created at start ([`FilteringProxy::credential`](super::FilteringProxy::credential)).
    Loopback,
}

/// User who may use a socket file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOwner {
    pub uid: u32,
    pub gid: u32,
}

pub(super) struct BoundListener {
    pub(super) acceptor: Acceptor,
    pub(super) socket: Option<SocketFile>,
    pub(super) address: Option<SocketAddr>,
}

pub(super) enum Acceptor {
    Unix(UnixListener),
    Loopback(TcpListener),
}

impl Acceptor {
    pub(super) async fn accept(&self) -> io::Result<ClientStream> {
        match self {
            Self::Unix(listener) => Ok(ClientStream::Unix(listener.accept().await?.0)),
            Self::Loopback(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(ClientStream::Tcp(stream))
            }
        }
    }
}

pub(super) fn bind(listener: &ProxyListener) -> Result<BoundListener, ProxyError> {
    match listener {
        ProxyListener::Unix { path, owner } => {
            let (listener, socket) = bind_unix(path, *owner)?;
            Ok(BoundListener { acceptor: Acceptor::Unix(listener), socket: Some(socket), address: None })
        }
        ProxyListener::Loopback => {
            let port = |source| ProxyError::Port { source };
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(port)?;
            listener.set_nonblocking(true).map_err(port)?;
            let address = listener.local_addr().map_err(port)?;
            let listener = TcpListener::from_std(listener).map_err(port)?;
            Ok(BoundListener { acceptor: Acceptor::Loopback(listener), socket: None, address: Some(address) })
        }
    }
}

/// Binds the socket. It gets its mode before its name, and its owner before it listens, so that no other user can
/// connect at any time.
fn bind_unix(path: &Path, owner: Option<SocketOwner>) -> Result<(UnixListener, SocketFile), ProxyError> {
    let failed = |source: io::Error| ProxyError::Socket { path: path.to_owned(), source };
    remove_stale(path)?;
    let name = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|error| failed(error.into()))?;
    // On Linux, a socket file gets the mode of the socket.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(|error| failed(error.into()))?;
    rustix::net::bind(&socket, &name).map_err(|error| failed(error.into()))?;
    let file = SocketFile::of(path).map_err(failed)?;
    if let Some(SocketOwner { uid, gid }) = owner {
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(CWD, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| ProxyError::Owner { path: path.to_owned(), uid, source: error.into() })?;
    }
    rustix::net::listen(&socket, BACKLOG).map_err(|error| failed(error.into()))?;
    let listener = UnixListener::from_std(socket.into()).map_err(failed)?;
    Ok((listener, file))
}

/// Removes a socket on which no process listens.
fn remove_stale(path: &Path) -> Result<(), ProxyError> {
    let failed = |source: io::Error| ProxyError::Socket { path: path.to_owned(), source };
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed)?,
    };
    let is_dead = found.file_type().is_socket()
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if !is_dead {
        return Err(ProxyError::Occupied { path: path.to_owned() });
    }
    fs::remove_file(path).map_err(failed)
}

/// Socket file that is removed on drop, unless it was replaced by another one.
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "failed to remove proxy socket file");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Connection of a client, of either kind.
pub(super) enum ClientStream {
    Unix(tokio::net::UnixStream),
    Tcp(TcpStream),
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
