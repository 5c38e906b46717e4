//! Who comes in: the network through its middleware, the owner on this machine through a private socket.

use std::net::SocketAddr;

use agentd_core::runtime::{AppContext, Metrics};
use agentd_operations::monitoring::Gate;
use agentd_web::{
    AccessDenied, Authenticate, Caller, CallerKind, CorsPolicy, Credential, Guarded, HostPolicy, HttpStack,
    Observation, OwnPages, PasswordProof, Scope,
};
use axum::Router;
use futures_util::future::BoxFuture;

use super::collector::request_spans;
use crate::config::Config;

/// The network's middleware around the routes.
pub(super) fn with_middleware(
    router: Router,
    metrics: &Metrics,
    gate: Gate,
    context: &AppContext,
    config: &Config,
    address: SocketAddr,
) -> Guarded<Gate> {
    let stack = HttpStack {
        observation: Observation {
            ids: context.ids.clone(),
            observer: metrics.request_observer(),
            spans: request_spans(context),
        },
        cors: CorsPolicy::new(config.allowed_origins(address)),
        hosts: HostPolicy::new(config.host_names()),
        trusted_proxies: config.trusted_proxies.clone(),
        own_pages: OwnPages::new(config.base_origin()),
        gate,
    };
    stack.around(router)
}

/// The owner on the daemon's own machine: who can open the private socket needs no key.
pub(super) struct OwnerAlone;

impl Authenticate for OwnerAlone {
    fn authenticate(&self, _credential: Option<Credential>) -> BoxFuture<'_, Result<Caller, AccessDenied>> {
        Box::pin(async {
            Ok(Caller {
                kind: CallerKind::Local,
                credential_id: "local".into(),
                user_id: None,
                scope: Scope::Full,
                password: PasswordProof::NotRequired,
            })
        })
    }

    fn is_in_force<'a>(&'a self, _caller: &'a Caller) -> BoxFuture<'a, bool> {
        Box::pin(async { true })
    }

    fn admit_anonymous(&self, _origin: Option<&str>) -> BoxFuture<'_, Result<(), AccessDenied>> {
        Box::pin(async { Ok(()) })
    }
}
