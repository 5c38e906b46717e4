//! Bidirectional byte streams, for `CONNECT` and for upgraded requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::meter::Meter;
use super::refusal::Body;
use super::shared::{ConnectionPermit, Shared, Upstream};

const BUFFER_BYTES: usize = 16 << 10;
/// Time limit for the client to accept the response that opens its tunnel.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers `CONNECT`; the following bytes are sent to `upstream`.
pub(super) fn connect(
    shared: &Arc<Shared>,
    permit: ConnectionPermit,
    mut request: Request<Incoming>,
    upstream: Upstream,
) -> Response<Body> {
    let client = hyper::upgrade::on(&mut request);
    let Upstream { stream, meter } = upstream;
    let stop = shared.stop.clone();
    shared.tasks.spawn(async move {
        let _permit = permit;
        tokio::select! {
            () = relay(client, stream, &meter) => {}
            () = stop.cancelled() => {}
        }
    });
    Response::new(Either::Left(Full::new(Bytes::new())))
}

/// Copies bytes until both sides have ended, one fails, or `meter` expires.
pub(super) async fn relay<S: AsyncRead + AsyncWrite + Unpin>(client: OnUpgrade, mut upstream: S, meter: &Meter) {
    let Ok(Ok(client)) = tokio::time::timeout(OPEN_TIMEOUT, client).await else { return };
    let mut client = TokioIo::new(client);
    let carrying = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER_BYTES, BUFFER_BYTES);
    tokio::select! {
        ended = carrying => if let Err(error) = ended {
            tracing::debug!(%error, "proxy tunnel ended with an error");
        },
        () = meter.expired() => {}
    }
}
