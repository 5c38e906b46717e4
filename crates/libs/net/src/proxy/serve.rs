//! Accepting connections and checking their requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

use super::listen::{Acceptor, ClientStream};
use super::meter::{Meter, Metered};
use super::refusal::{self, Body};
use super::shared::{ConnectionPermit, Shared};
use super::target::parse_target;
use super::{exchange, tunnel};

/// Minimum accepted by hyper.
const MIN_BUFFER_BYTES: usize = 8 << 10;
/// Delay after a failed `accept`, which is usually caused by a lack of file descriptors; retrying immediately would
/// spin.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

pub(super) async fn accept(shared: Arc<Shared>, acceptor: Acceptor) {
    let permits = Arc::new(Semaphore::new(shared.limits.connections));
    loop {
        let next = async {
            let permit = Arc::clone(&permits).acquire_owned().await.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>((acceptor.accept().await?, permit))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = shared.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, permit)) => {
                shared.accepted.fetch_add(1, Ordering::AcqRel);
                let serving = serve(Arc::clone(&shared), stream, Arc::new(permit));
                shared.tasks.spawn(serving);
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept proxy connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: ClientStream, permit: ConnectionPermit) {
    let limits = shared.limits;
    // A client that reads one byte per minute is not idle, but must be bounded too.
    let total_timeout = limits.total_timeout + limits.connect_timeout + limits.head_timeout;
    let meter = Arc::new(Meter::new(limits.idle_timeout).with_limits(total_timeout, None));
    let stream = TokioIo::new(Metered::new(stream, Arc::clone(&meter)));
    let service = service_fn(|request| {
        let (shared, permit) = (Arc::clone(&shared), Arc::clone(&permit));
        async move { Ok::<_, Infallible>(respond(shared, permit, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.head_bytes.max(MIN_BUFFER_BYTES))
        .max_header_size(limits.head_bytes)
        .serve_connection(stream, service)
        .with_upgrades();
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%error, "proxy connection ended with an error");
        },
        () = meter.expired() => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn respond(shared: Arc<Shared>, permit: ConnectionPermit, request: Request<Incoming>) -> Response<Body> {
    if !shared.access.permits(request.headers()) {
        return refusal::credential_missing();
    }
    let target = match parse_target(&request) {
        Ok(target) => target,
        Err(sentence) => return refusal::text_response(StatusCode::BAD_REQUEST, sentence),
    };
    let upstream = match shared.connect_upstream(&target).await {
        Ok(upstream) => upstream,
        Err(error) => {
            shared.report(&target, &error);
            return refusal::error_response(&error);
        }
    };
    if request.method() == Method::CONNECT {
        tunnel::connect(&shared, permit, request, upstream)
    } else {
        exchange::forward(&shared, permit, request, &target, upstream).await
    }
}
