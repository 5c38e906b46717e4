//! Wires the domains: which service gets what, which trait is implemented by whom. The only
//! module that knows them all.

mod access;
mod collector;
mod daemon;
mod registry;
mod rest;
mod routes;
mod slots;
mod wiring;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use agentd_conversation::memory;
use agentd_core::parts::ShutdownStep;
use agentd_core::runtime::{AppContext, StoredLedger, Workers};
use agentd_operations::backup::{WhileBusy, local_routes};
use agentd_operations::monitoring::{Gate, Readiness, refuse_unless_ready};
use agentd_operations::web_ui::page_of;
use agentd_web::{Guarded, IdempotencyGuard, catch_panic, follow_request};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

use crate::config::Config;
use crate::lifecycle::{LocalRouter, StartError};
use access::{OwnerAlone, with_middleware};
pub use routes::document;
use routes::routes;
use wiring::Services;
pub use wiring::{Inside, wire};

/// A composed daemon: what answers, and what works in the background.
#[derive(Clone)]
pub struct Daemon {
    /// The API behind its middleware.
    pub router: Guarded<Gate>,
    /// The API for the owner on the daemon's own machine, without the network's middleware.
    pub local_router: LocalRouter,
    pub workers: Workers,
    services: Services,
    shutdown: Vec<ShutdownStep>,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("workers", &self.workers).finish_non_exhaustive()
    }
}

/// Wires everything over an open context, and makes its doors. `while_busy` is what to do while another daemon on the
/// same data directory restores.
///
/// # Errors
/// What a domain cannot start without is missing.
pub async fn compose(
    context: AppContext,
    config: &Config,
    address: SocketAddr,
    readiness: Readiness,
    while_busy: WhileBusy,
) -> Result<Daemon, StartError> {
    let Inside { workers, services, shutdown, backlog, hashing_key } =
        wire(&context, config, address, readiness.clone(), while_busy).await?;
    let guard = Arc::new(IdempotencyGuard::new(Arc::new(StoredLedger(context.db.clone())), hashing_key));
    let open = routes(&services).mount(Arc::new(services.auth.clone()), &guard, page_of);
    let gate = Gate { readiness, backlog };
    let router = with_middleware(open, &services, gate.clone(), &context, config, address);
    let (local, ids) = (services.clone(), context.ids.clone());
    let make: Box<dyn FnOnce() -> Router + Send> = Box::new(move || {
        routes(&local)
            .mount(Arc::new(OwnerAlone), &guard, page_of)
            .layer(from_fn_with_state(gate, refuse_unless_ready))
            // Behind no gate: a restore is what closes it.
            .merge(local_routes(local.backup.clone()))
            .merge(memory::local_routes(local.memory.clone()))
            .layer(from_fn(catch_panic))
            .layer(from_fn_with_state(ids, follow_request))
    });
    Ok(Daemon { router, local_router: Arc::new(LazyLock::new(make)), workers, services, shutdown })
}
