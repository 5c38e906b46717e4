//! Who comes in: the network through its middleware, the owner on this machine through a private socket.

use std::net::SocketAddr;

use agentd_core::auth::{Auth, AuthError};
use agentd_core::runtime::AppContext;
use agentd_operations::monitoring::{self, Gate};
use agentd_store::StoreError;
use agentd_web::{
    AccessDenied, Authenticate, Caller, CallerKind, CorsPolicy, Credential, Guarded, HostPolicy, HttpStack,
    Observation, OwnPages, PasswordProof, Scope,
};
use axum::Router;
use futures_util::future::BoxFuture;

use super::Services;
use super::collector::request_spans;
use crate::config::Config;

/// The network's middleware around the routes.
pub(super) fn with_middleware(
    router: Router,
    services: &Services,
    gate: Gate,
    context: &AppContext,
    config: &Config,
    address: SocketAddr,
) -> Guarded<Gate> {
    let stack = HttpStack {
        observation: Observation {
            ids: context.ids.clone(),
            observer: services.monitoring.metrics().request_observer(),
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

pub(super) struct Bootstrap(pub(super) Auth);

impl monitoring::ReportsBootstrap for Bootstrap {
    fn bootstrap_mode(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            match self.0.recent_bootstrap_state().await {
                Ok(state) => Ok(state.bootstrap_mode),
                Err(AuthError::Store(error)) => Err(error),
                // Reading the state fails in no other way.
                Err(_) => Err(StoreError::Closed),
            }
        })
    }
}
