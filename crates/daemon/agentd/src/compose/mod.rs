//! Wires the domains: which service gets what, which trait is implemented by whom. The only
//! module that knows them all.

mod access;
mod adapters;
mod collector;
mod daemon;
mod document;
mod error;
mod models;
mod registry;
mod rest;
mod wiring;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use agentd_conversation::memory;
use agentd_core::runtime::{AppContext, StoredLedger};
use agentd_operations::backup::{WhileBusy, local_routes};
use agentd_operations::monitoring::{Gate, Readiness, refuse_unless_ready};
use agentd_operations::web_ui::page_of;
use agentd_web::{IdempotencyGuard, catch_panic, follow_request};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

use crate::config::Config;
use access::{OwnerAlone, with_middleware};
pub use daemon::{Daemon, Inside, LocalRouter};
pub use error::ComposeError;
pub use wiring::wire;

/// Wires everything over an open context, and adds the routers. `while_busy` is what to do while another daemon on the
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
) -> Result<Daemon, ComposeError> {
    let Inside { workers, services, routes, describe, shutdown, backlog, hashing_key } =
        wire(&context, config, address, readiness.clone(), while_busy).await?;
    let guard = Arc::new(IdempotencyGuard::new(Arc::new(StoredLedger(context.db.clone())), hashing_key));
    let open = routes.clone().mount(Arc::new(services.auth.clone()), &guard, page_of);
    let gate = Gate { readiness, backlog };
    let router = with_middleware(open, &services.metrics, gate.clone(), &context, config, address);
    let (backup, of_memory, ids) = (services.backup.clone(), services.memory.clone(), context.ids.clone());
    let make: Box<dyn FnOnce() -> Router + Send> = Box::new(move || {
        routes
            .mount(Arc::new(OwnerAlone), &guard, page_of)
            .layer(from_fn_with_state(gate, refuse_unless_ready))
            // Behind no gate: a restore is what closes it.
            .merge(local_routes(backup))
            .merge(memory::local_routes(of_memory))
            .layer(from_fn(catch_panic))
            .layer(from_fn_with_state(ids, follow_request))
    });
    Ok(Daemon { router, local_router: Arc::new(LazyLock::new(make)), workers, services, describe, shutdown })
}
