//! From an accepted connection to checked requests.

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
use super::target::target_of;
use super::{exchange, tunnel};

/// hyper's own minimum.
const SMALLEST_BUFFER: usize = 8 << 10;
/// After a failed `accept`: the system is out of handles, and asking at once would only spin.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

pub(super) async fn accept(shared: Arc<Shared>, acceptor: Acceptor) {
    let places = Arc::new(Semaphore::new(shared.limits.connections));
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>((acceptor.accept().await?, place))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = shared.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, place)) => {
                shared.accepted.fetch_add(1, Ordering::AcqRel);
                let serving = serve(Arc::clone(&shared), stream, Arc::new(place));
                shared.tasks.spawn(serving);
            }
            Err(error) => {
                tracing::warn!(%error, "a proxy could not accept a connection");
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: ClientStream, place: ConnectionPermit) {
    let limits = shared.limits;
    // Whoever reads a byte a minute is not idle, and must go all the same.
    let total_time = limits.total_time + limits.connect_time + limits.head_time;
    let meter = Arc::new(Meter::new(limits.idle_time).bounded(total_time, None));
    let stream = TokioIo::new(Metered::new(stream, Arc::clone(&meter)));
    let service = service_fn(|request| {
        let (shared, place) = (Arc::clone(&shared), Arc::clone(&place));
        async move { Ok::<_, Infallible>(respond(shared, place, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head_bytes.max(SMALLEST_BUFFER))
        .max_header_size(limits.head_bytes)
        .serve_connection(stream, service)
        .with_upgrades();
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%error, "a connection to a proxy ended early");
        },
        () = meter.expired() => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn respond(shared: Arc<Shared>, place: ConnectionPermit, request: Request<Incoming>) -> Response<Body> {
    if !shared.access.permits(request.headers()) {
        return refusal::credential_missing();
    }
    let target = match target_of(&request) {
        Ok(target) => target,
        Err(sentence) => return refusal::answer(StatusCode::BAD_REQUEST, sentence),
    };
    let upstream = match shared.reach(&target).await {
        Ok(upstream) => upstream,
        Err(error) => {
            shared.report(&target, &error);
            return refusal::of_error(&error);
        }
    };
    if request.method() == Method::CONNECT {
        tunnel::connect(&shared, place, request, upstream)
    } else {
        exchange::forward(&shared, place, request, &target, upstream).await
    }
}
