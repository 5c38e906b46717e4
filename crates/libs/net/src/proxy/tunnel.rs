//! Bytes both ways, for `CONNECT` and for what a request was upgraded to.

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
/// For a client to take the answer that opens its tunnel.
const OPENING_TIME: Duration = Duration::from_secs(10);

/// Answers `CONNECT`: everything after this answer goes to `upstream`.
pub(super) fn connect(
    shared: &Arc<Shared>,
    place: ConnectionPermit,
    mut request: Request<Incoming>,
    upstream: Upstream,
) -> Response<Body> {
    let client = hyper::upgrade::on(&mut request);
    let Upstream { stream, meter } = upstream;
    let stop = shared.stop.clone();
    shared.tasks.spawn(async move {
        let _place = place;
        tokio::select! {
            () = carry(client, stream, &meter) => {}
            () = stop.cancelled() => {}
        }
    });
    Response::new(Either::Left(Full::new(Bytes::new())))
}

/// Carries bytes until both sides have ended, one fails, or `meter` says that it is enough.
pub(super) async fn carry<S: AsyncRead + AsyncWrite + Unpin>(client: OnUpgrade, mut upstream: S, meter: &Meter) {
    let Ok(Ok(client)) = tokio::time::timeout(OPENING_TIME, client).await else { return };
    let mut client = TokioIo::new(client);
    let carrying = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER_BYTES, BUFFER_BYTES);
    tokio::select! {
        ended = carrying => if let Err(error) = ended {
            tracing::debug!(%error, "a tunnel ended early");
        },
        () = meter.expired() => {}
    }
}
