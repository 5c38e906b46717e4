//! Composition root: constructs all services and connects their traits. The only module that depends on every domain.

mod access;
mod adapters;
mod collector;
mod daemon;
mod document;
mod error;
mod examples;
mod models;
mod quiesce;
mod registry;
mod wiring;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use agentd_conversation::memory;
use agentd_core::runtime::{AppContext, StoredLedger};
use agentd_operations::backup::{WhileBusy, local_routes};
use agentd_operations::monitoring::{Gate, Readiness, reject_unless_ready};
use agentd_operations::web_ui::page_of;
use agentd_web::{IdempotencyGuard, catch_panic, trace_request};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

use crate::config::Config;
use access::{LocalOwner, with_middleware};
pub use daemon::{Daemon, DaemonServices, LocalRouter};
pub use error::ComposeError;
pub use wiring::wire;

/// Constructs all services over an open context and adds the routers. `while_busy` decides whether to wait while
/// another daemon on the same data directory restores a backup.
///
/// # Errors
/// `ComposeError` if a domain fails to start.
pub async fn compose(
    context: AppContext,
    config: &Config,
    address: SocketAddr,
    readiness: Readiness,
    while_busy: WhileBusy,
) -> Result<Daemon, ComposeError> {
    let DaemonServices { workers, services, routes, describe, shutdown, backlog, hashing_key } =
        wire(&context, config, address, readiness.clone(), while_busy).await?;
    let guard = Arc::new(IdempotencyGuard::new(Arc::new(StoredLedger(context.db.clone())), hashing_key));
    let open = routes.clone().mount(Arc::new(services.auth.clone()), &guard, page_of);
    let gate = Gate { readiness, backlog };
    let router = with_middleware(open, &services.metrics, gate.clone(), &context, config, address);
    let (backup, memory_service, ids) = (services.backup.clone(), services.memory.clone(), context.ids.clone());
    let build_local_router: Box<dyn FnOnce() -> Router + Send> = Box::new(move || {
        routes
            .mount(Arc::new(LocalOwner), &guard, page_of)
            .layer(from_fn_with_state(gate, reject_unless_ready))
            // Not behind the gate, because a restore closes the gate.
            .merge(local_routes(backup))
            .merge(memory::local_routes(memory_service))
            .layer(from_fn(catch_panic))
            .layer(from_fn_with_state(ids, trace_request))
    });
    Ok(Daemon {
        router,
        local_router: Arc::new(LazyLock::new(build_local_router)),
        workers,
        services,
        describe,
        shutdown,
    })
}
