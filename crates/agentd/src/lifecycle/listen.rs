//! Accepts connections and serves HTTP/1.1 on them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::front::Front;

/// More connections than this wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 8192;
/// A client that is slower than this to send its headers is not one.
const HEADER_TIME_LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn serve_tcp(listener: TcpListener, front: Front, tracker: TaskTracker, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (front, stop) = (front.clone(), stop.clone());
                tracker.spawn(async move {
                    serve_peer(stream, peer, front, stop).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of file handles, most likely: give connections time to close.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_peer(stream: TcpStream, peer: SocketAddr, front: Front, stop: CancellationToken) {
    // Tokens of a stream are small and must leave at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection closed before it was served");
        return;
    }
    let service = service_fn(move |mut request| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let front = front.clone();
        async move { front.answer(request).await }
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
        .header_read_timeout(HEADER_TIME_LIMIT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = stop.cancelled() => {
            // The request under way gets its answer, then the connection closes.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}
