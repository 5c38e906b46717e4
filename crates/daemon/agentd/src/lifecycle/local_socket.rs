//! The private socket in the data directory: how the command line reaches a running daemon.
//!
//! Only the owner can open it (mode 0600 inside a 0700 folder), and only connections of the daemon's own user and of
//! root are served; so requests here need no key. No address can reach it, no browser and no proxy.
//!
//! Daemons over one PostgreSQL may share a data directory. The socket belongs to the one that holds
//! a lock beside it; the others run without, and one of them takes over when the holder ends. So
//! nobody removes a socket that another one answers on.

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

/// How soon a daemon without the socket looks whether it is free.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const BEFORE_NEXT_ACCEPT: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 1024;

/// The socket, ours until it is dropped.
#[derive(Debug)]
pub(super) struct LocalSocket {
    listener: UnixListener,
    data_dir: Arc<DataDir>,
    /// Given back last: until then nobody else makes a socket under this name.
    _lock: FileLock,
}

impl LocalSocket {
    /// Makes the socket, unless another daemon has it.
    pub(super) fn claim(data_dir: &Arc<DataDir>) -> io::Result<Option<Self>> {
        let Some(lock) = FileLock::try_take(&data_dir.socket_lock())? else { return Ok(None) };
        let path = data_dir.socket();
        // The lock is ours, so a socket that is already there is a leftover.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixSocket::new_stream()?;
        // Before it has a name: the file that `bind` creates takes the mode of the socket.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        socket.bind(&path)?;
        let listener = socket.listen(BACKLOG)?;
        Ok(Some(Self { listener, data_dir: Arc::clone(data_dir), _lock: lock }))
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // A socket file that stays behind would make the command line wait for nobody.
        if let Err(error) = std::fs::remove_file(self.data_dir.socket()) {
            tracing::debug!(%error, "the private socket was already gone");
        }
    }
}

/// Answers on the socket until `stop`. Without one, waits until the daemon that has it ends.
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
            tracing::info!(
                "another daemon on this data directory has the private socket: commands reach that one, and this one when it ends"
            );
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
                tracing::warn!(%error, "a connection to the private socket could not be accepted");
                tokio::time::sleep(BEFORE_NEXT_ACCEPT).await;
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
        tokio::time::sleep(LOOK_AGAIN).await;
        match LocalSocket::claim(data_dir) {
            Ok(Some(socket)) => {
                tracing::info!("the private socket is free: commands reach this daemon now");
                return socket;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the private socket cannot be taken over; trying again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;

    use super::*;

    #[tokio::test]
    async fn belongs_to_one_daemon_and_outlives_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = Arc::new(DataDir::open(&folder.path().join("data")).unwrap());
        let holder = LocalSocket::claim(&data_dir).unwrap().expect("free");
        assert!(LocalSocket::claim(&data_dir).unwrap().is_none());
        // A daemon without the socket that ends takes nothing along.
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
    async fn a_socket_that_a_killed_daemon_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = Arc::new(DataDir::open(&folder.path().join("data")).unwrap());
        drop(std::os::unix::net::UnixListener::bind(data_dir.socket()).unwrap());
        assert!(std::os::unix::net::UnixStream::connect(data_dir.socket()).is_err());
        let _socket = LocalSocket::claim(&data_dir).unwrap().expect("a leftover");
        std::os::unix::net::UnixStream::connect(data_dir.socket()).expect("ours");
    }
}
