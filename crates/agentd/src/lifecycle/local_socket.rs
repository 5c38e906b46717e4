//! The private socket in the data directory: how the command line reaches a running daemon.
//!
//! Who may open it is who may read the data directory (mode 0600 inside a 0700 folder), which is
//! the owner; so requests here need no key. No address can reach it, no browser and no proxy.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use hyper::service::service_fn;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::listen::serve_connection;

/// The API for the owner, made when the first command asks for it.
pub type LocalRouter = Arc<LazyLock<Router, Box<dyn FnOnce() -> Router + Send>>>;

pub(super) fn bind(path: &Path) -> io::Result<UnixListener> {
    // The store's lock is ours by now, so a socket that is already there is a leftover.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

pub(super) async fn serve(listener: UnixListener, router: LocalRouter, tracker: TaskTracker, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { continue };
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
