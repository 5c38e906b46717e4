//! Accepts connections and serves HTTP/1.1 on them. How many, and from whom, is the gate's to say;
//! how slowly a request's body may come is the matter of the middleware behind.

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

use super::front::Front;
use super::peers::PeerGate;

/// A client that is slower than this to send its headers is not one.
const HEADER_TIME_LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn serve_tcp(
    listener: TcpListener,
    gate: Arc<PeerGate>,
    front: Front,
    tracker: TaskTracker,
    stop: CancellationToken,
) {
    loop {
        // Who finds no permit waits in the kernel's queue.
        let Some(Some(place)) = stop.run_until_cancelled(gate.place()).await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(admitted) = gate.admit(peer.ip()) else {
                    tracing::debug!(%peer, "a connection is refused: its peer has too many");
                    continue;
                };
                let (front, stop) = (front.clone(), stop.clone());
                tracker.spawn(async move {
                    serve_peer(stream, peer, front, stop).await;
                    drop((admitted, place));
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
