//! Wires the domains: which service gets what, which trait is implemented by whom. The only
//! module that knows them all.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agentd_web::{
    Authenticate, CorsPolicy, HostPolicy, IdempotencyGuard, Observation, Routes, add_security_headers, apply_cors,
    catch_panic, check_host, complete_document, observe, record_client_address,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use utoipa::openapi::OpenApi;
use utoipa::openapi::info::{InfoBuilder, LicenseBuilder};

use crate::config::Config;
use crate::ground::{Ground, StoredLedger, Workers};
use crate::lifecycle::{LocalRouter, StartError};
use crate::monitoring::{Monitoring, Readiness, refuse_unless_ready};
use crate::page::Pages;
use crate::{monitoring, page};

/// A composed daemon: what answers, and what works in the background.
#[derive(Clone)]
pub struct Daemon {
    /// The API behind its doors.
    pub router: Router,
    /// The API for the owner on the daemon's own machine, without the network's doors.
    pub local_router: LocalRouter,
    pub workers: Workers,
    services: Services,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("workers", &self.workers).finish_non_exhaustive()
    }
}

/// Every service, cheap to clone.
#[derive(Clone)]
struct Services {
    monitoring: Monitoring,
}

impl Daemon {
    /// Brings running work to its end; what takes longer than `limit` is marked and left.
    pub async fn drain(&self, limit: Duration) {
        let _ = limit;
    }

    /// Whether no API key was ever made.
    pub async fn is_bootstrapping(&self) -> bool {
        false
    }
}

/// The routes of every domain, their states given.
fn routes(services: &Services) -> Routes {
    Routes::new()
        .merge(page::routes().with_state(Pages { document }))
        .merge(monitoring::routes().with_state(services.monitoring.clone()))
}

/// The OpenAPI document, from the code alone.
#[must_use]
pub fn document() -> OpenApi {
    let mut document = page::routes().into_document();
    for part in [monitoring::routes().into_document()] {
        document.merge(part);
    }
    document.info = InfoBuilder::new()
        .title("agentd")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("A self-hosted daemon that hosts AI agents."))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .build();
    complete_document(&mut document);
    document
}

/// The network's doors around the routes, outermost last.
fn behind_doors(router: Router, services: &Services, ground: &Ground, config: &Config, address: SocketAddr) -> Router {
    let origins = config.allowed_origins(address);
    let observation = Observation { ids: ground.ids.clone(), observer: services.monitoring.metrics().request_observer() };
    router
        .layer(DefaultBodyLimit::max(agentd_web::limits::BODY))
        .layer(from_fn_with_state(services.monitoring.readiness().clone(), refuse_unless_ready))
        .layer(from_fn_with_state(Arc::new(config.trusted_proxies.clone()), record_client_address))
        .layer(from_fn_with_state(Arc::new(HostPolicy::new(config.host_names())), check_host))
        .layer(from_fn_with_state(Arc::new(CorsPolicy::new(origins)), apply_cors))
        .layer(from_fn(catch_panic))
        .layer(from_fn(add_security_headers))
        .layer(from_fn_with_state(Arc::new(observation), observe))
}

/// Wires everything over an open ground.
///
/// # Errors
/// What a domain cannot start without is missing.
pub async fn compose(ground: Ground, config: &Config, address: SocketAddr, readiness: Readiness) -> Result<Daemon, StartError> {
    let _ = (ground, config, address, readiness);
    Err(StartError::Domain(String::new()))
}
