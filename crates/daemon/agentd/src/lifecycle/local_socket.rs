//! Private socket in the data directory, through which the command line reaches a running daemon.
//!
//! Only the owner can open it (mode 0600 inside a 0700 directory), and only connections of the daemon's user and of
//! root are served, so requests need no key. It is not reachable from the network, from a browser or through a proxy.
//!
//! Daemons on one PostgreSQL database may share a data directory. The socket belongs to the daemon that holds its lock
//! file. The others run without a socket, and one of them takes over when the holder exits. No daemon removes a socket
//! that another one serves.

use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agentd_core::runtime::{DataDir, FileLock};
use axum::body::Body;
use hyper::service::service_fn;
use rustix::fs::Mode;
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::listen::serve_connection;
use crate::compose::LocalRouter;

/// Interval at which a daemon without the socket tries to acquire it.
const CLAIM_RETRY_INTERVAL: Duration = Duration::from_secs(1);
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 1024;

/// Private socket owned by this daemon; removed on drop.
#[derive(Debug)]
pub(super) struct LocalSocket {
    listener: UnixListener,
    data_dir: Arc<DataDir>,
    /// Released last: until then no other daemon creates a socket with this name.
    _lock: FileLock,
}

impl LocalSocket {
    /// Creates the socket; `None` if another daemon owns it.
    pub(super) fn claim(data_dir: &Arc<DataDir>) -> io::Result<Option<Self>> {
        let Some(lock) = FileLock::try_acquire(&data_dir.socket_lock())? else { return Ok(None) };
        let path = data_dir.socket();
        // This daemon holds the lock, so an existing socket is left over from a killed daemon.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixSocket::new_stream()?;
        // Before `bind`, because the created file takes the mode of the socket.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        socket.bind(&path)?;
        let listener = socket.listen(BACKLOG)?;
        Ok(Some(Self { listener, data_dir: Arc::clone(data_dir), _lock: lock }))
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // The command line would try to connect to a leftover socket file.
        if let Err(error) = std::fs::remove_file(self.data_dir.socket()) {
            tracing::debug!(%error, "failed to remove private socket");
        }
    }
}

/// Serves the socket until `stop`. If another daemon owns it, waits until that daemon exits.
pub(super) async fn serve(
    claimed: Option<LocalSocket>,
    data_dir: Arc<DataDir>,
    router: LocalRouter,
    tracker: TaskTracker,
    stop: CancellationToken,
) {
    let socket = match claimed {
        Some(socket) => socket,
        None => {
            tracing::info!("private socket owned by another daemon on this data directory; waiting to take over");
            match stop.run_until_cancelled(take_over(&data_dir)).await {
                Some(socket) => socket,
                None => return,
            }
        }
    };
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = socket.listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "failed to accept private socket connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        if let Err(problem) = check_peer(&stream) {
            tracing::warn!(%problem, "private socket connection refused");
            continue;
        }
        let (router, stop) = (Arc::clone(&router), stop.clone());
        tracker.spawn(async move {
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let router = LazyLock::force(&router).clone();
                async move { router.oneshot(request.map(Body::new)).await }
            });
            serve_connection(stream, service, stop).await;
        });
    }
}

/// Requires that the process at the other end runs as this user or as root.
fn check_peer(stream: &UnixStream) -> Result<(), String> {
    let peer = stream.peer_cred().map_err(|error| format!("the peer is unknown: {error}"))?.uid();
    let is_trusted = peer == 0 || peer == rustix::process::geteuid().as_raw();
    if is_trusted { Ok(()) } else { Err(format!("the peer runs as user {peer}")) }
}

async fn take_over(data_dir: &Arc<DataDir>) -> LocalSocket {
    loop {
        tokio::time::sleep(CLAIM_RETRY_INTERVAL).await;
        match LocalSocket::claim(data_dir) {
            Ok(Some(socket)) => {
                tracing::info!("private socket taken over");
                return socket;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "failed to take over private socket; retrying"),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;

    use super::*;

    #[tokio::test]
    async fn socket_has_one_owner_and_survives_other_daemons() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = Arc::new(DataDir::open(&folder.path().join("data")).unwrap());
        let holder = LocalSocket::claim(&data_dir).unwrap().expect("free");
        assert!(LocalSocket::claim(&data_dir).unwrap().is_none());
        // A daemon without the socket does not remove it at exit.
        let stop = CancellationToken::new();
        let router: LocalRouter = Arc::new(LazyLock::new(Box::new(Router::new)));
        let waiting = serve(None, Arc::clone(&data_dir), router, TaskTracker::new(), stop.clone());
        stop.cancel();
        waiting.await;
        std::os::unix::net::UnixStream::connect(data_dir.socket()).expect("the holder's");
        drop(holder);
        assert!(!data_dir.socket().exists());
        assert!(LocalSocket::claim(&data_dir).unwrap().is_some());
    }

    #[tokio::test]
    async fn leftover_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = Arc::new(DataDir::open(&folder.path().join("data")).unwrap());
        drop(std::os::unix::net::UnixListener::bind(data_dir.socket()).unwrap());
        assert!(std::os::unix::net::UnixStream::connect(data_dir.socket()).is_err());
        let _socket = LocalSocket::claim(&data_dir).unwrap().expect("a leftover");
        std::os::unix::net::UnixStream::connect(data_dir.socket()).expect("ours");
    }
}
