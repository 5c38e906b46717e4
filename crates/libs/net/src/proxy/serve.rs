//! From an accepted connection to checked requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::access::Access;
use super::listen::{Acceptor, ClientStream};
use super::meter::{Meter, Metered, Permission};
use super::refusal::{self, Body};
use super::target::{Target, target_of};
use super::{ListedPorts, ProxyLimits, ProxyObserver, exchange, tunnel};
use crate::NetError;
use crate::dial::Dialer;

/// hyper's own minimum.
const SMALLEST_BUFFER: usize = 8 << 10;
/// After a failed `accept`: the system is out of handles, and asking at once would only spin.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

pub(super) struct Shared {
    pub(super) dialer: Dialer,
    pub(super) access: Access,
    pub(super) ports: Option<ListedPorts>,
    pub(super) limits: ProxyLimits,
    pub(super) observer: Option<Arc<dyn ProxyObserver>>,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    /// Connections of clients that were accepted.
    pub(super) accepted: Arc<AtomicU64>,
}

/// The permit that a connection holds until its last task is gone.
pub(super) type ConnectionPermit = Arc<OwnedSemaphorePermit>;

/// A connection to where a request leads.
pub(super) struct Upstream {
    pub(super) stream: Metered<TcpStream>,
    pub(super) meter: Arc<Meter>,
}

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

impl Shared {
    /// Tells the observer why a request got no answer of its server.
    pub(super) fn report(&self, target: &Target, error: &NetError) {
        let Some(observer) = &self.observer else { return };
        let host = target.host.to_string();
        if error.is_refusal() {
            observer.refused(&host, target.port, error);
        } else {
            observer.failed(&host, target.port, error);
        }
    }

    async fn reach(&self, target: &Target) -> Result<Upstream, NetError> {
        // What the policy says comes first: its reason is the better one.
        self.dialer.policy.current().check_target(&target.host, target.port, self.dialer.trust)?;
        if let Some(listed) = self.ports.as_ref().filter(|listed| !listed.ports.contains(&target.port)) {
            let (host, setting) = (target.host.to_string(), listed.setting);
            return Err(NetError::PortNotListed { host, port: target.port, setting });
        }
        let dialed = self.dialer.dial(&target.host, target.port).await?;
        let permission = Permission {
            policy: self.dialer.policy.clone(),
            granted_under: ArcSwap::new(dialed.policy),
            trust: self.dialer.trust,
            host: target.host.clone(),
            port: target.port,
            address: dialed.address,
        };
        let meter = Meter::new(self.limits.idle_time)
            .bounded(self.limits.total_time, self.limits.bytes_each_way)
            .permitted(permission);
        let meter = Arc::new(meter);
        Ok(Upstream { stream: Metered::new(dialed.stream, Arc::clone(&meter)), meter })
    }
}
