//! Access to the API: middleware for the network, and authentication for the private socket of the owner.

use std::net::SocketAddr;

use agentd_core::runtime::{AppContext, Metrics};
use agentd_operations::monitoring::Gate;
use agentd_web::{
    AccessDenied, Authenticate, Caller, CallerKind, CorsPolicy, Credential, GuardedRouter, HostPolicy, HttpStack,
    Observation, OwnPages, PasswordProof, Scope,
};
use axum::Router;
use futures_util::future::BoxFuture;

use super::collector::request_spans;
use crate::config::Config;

/// Wraps the routes in the middleware for network requests.
pub(super) fn with_middleware(
    router: Router,
    metrics: &Metrics,
    gate: Gate,
    context: &AppContext,
    config: &Config,
    address: SocketAddr,
) -> GuardedRouter<Gate> {
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
    stack.wrap(router)
}

/// Authentication of the private socket. Every connection belongs to the owner, so no key is needed.
pub(super) struct LocalOwner;

impl Authenticate for LocalOwner {
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

    fn is_valid<'a>(&'a self, _caller: &'a Caller) -> BoxFuture<'a, bool> {
        Box::pin(async { true })
    }

    fn admit_anonymous(&self, _origin: Option<&str>) -> BoxFuture<'_, Result<(), AccessDenied>> {
        Box::pin(async { Ok(()) })
    }
}
