//! Wires the domains: which service gets what, which trait is implemented by whom. The only
//! module that knows them all.

use std::sync::{Arc, OnceLock};

use agentd_web::{
    CorsPolicy, HostPolicy, IdempotencyGuard, Observation, Routes, add_security_headers, apply_cors, catch_panic,
    check_host, complete_document, observe, record_client_address,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use utoipa::openapi::OpenApi;

use crate::config::Config;
use crate::ground::{Ground, StoredLedger, Workers};
use crate::lifecycle::StartError;

/// A composed daemon: what answers, and what works in the background.
#[derive(Debug, Clone)]
pub struct Daemon {
    /// The API behind its doors.
    pub router: Router,
    /// The API for the owner on the daemon's own machine, without the network's doors.
    pub local_router: Router,
    pub workers: Workers,
}

/// Wires everything over an open ground.
///
/// # Errors
/// What a domain cannot start without is missing.
pub async fn compose(ground: Ground, config: &Config) -> Result<Daemon, StartError> {
    let workers = Workers::default();
    let _ = (ground, config, workers);
    unreachable!("wired by the domains")
}

/// The OpenAPI document, from the code alone.
#[must_use]
pub fn document() -> OpenApi {
    static DOCUMENT: OnceLock<OpenApi> = OnceLock::new();
    DOCUMENT
        .get_or_init(|| {
            let mut document = Routes::<()>::new().into_document();
            complete_document(&mut document);
            document
        })
        .clone()
}
