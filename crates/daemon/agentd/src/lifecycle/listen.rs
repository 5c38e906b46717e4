//! Accepts connections and serves HTTP/1.1. The connection limiter bounds their number; the middleware bounds the time
//! for request bodies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection_limiter::ConnectionLimiter;
use super::startup::StartupSwitch;

/// Maximum time for a client to send the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) async fn serve_tcp(
    listener: TcpListener,
    limiter: Arc<ConnectionLimiter>,
    front: StartupSwitch,
    tracker: TaskTracker,
    stop: CancellationToken,
) {
    loop {
        // Without a permit, connections wait in the kernel's accept queue.
        let Some(Some(permit)) = stop.run_until_cancelled(limiter.acquire()).await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(peer_permit) = limiter.admit(peer.ip()) else {
                    tracing::debug!(%peer, "connection rejected: too many connections from this peer");
                    continue;
                };
                let (front, stop) = (front.clone(), stop.clone());
                tracker.spawn(async move {
                    serve_peer(stream, peer, front, stop).await;
                    drop((peer_permit, permit));
                });
            }
            Err(error) => {
                // Most likely out of file descriptors: wait for connections to close.
                tracing::warn!(%error, "failed to accept connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_peer(stream: TcpStream, peer: SocketAddr, front: StartupSwitch, stop: CancellationToken) {
    // Stream tokens are small and must be sent immediately.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "connection closed before it was served");
        return;
    }
    let service = service_fn(move |mut request| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let front = front.clone();
        async move { front.handle(request).await }
    });
    serve_connection(stream, service, stop).await;
}

pub(super) async fn serve_connection<I, S, E>(stream: I, service: S, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: hyper::service::Service<http::Request<hyper::body::Incoming>, Response = axum::response::Response, Error = E>
        + Send,
    S::Future: Send,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = stop.cancelled() => {
            // The request in flight is answered, then the connection closes.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection ended with an error");
    }
}
