//! Wires the domains: which service gets what, which trait is implemented by whom. The only
//! module that knows them all.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentd_web::{
    Authenticate, CorsPolicy, HostPolicy, IdempotencyGuard, Observation, Routes, add_security_headers, apply_cors,
    catch_panic, check_host, complete_document, observe, record_client_address,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use utoipa::openapi::OpenApi;

use crate::config::Config;
use crate::ground::{Ground, StoredLedger, Workers};
use crate::lifecycle::{LocalRouter, StartError};
use crate::monitoring::Readiness;
use crate::page;

/// A composed daemon: what answers, and what works in the background.
#[derive(Clone)]
pub struct Daemon {
    /// The API behind its doors.
    pub router: Router,
    /// The API for the owner on the daemon's own machine, without the network's doors.
    pub local_router: LocalRouter,
    pub workers: Workers,
}
