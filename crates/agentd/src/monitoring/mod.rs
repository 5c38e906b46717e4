//! Health and figures: the probes, the public health answer, the index, and the metrics.
//!
//! Invariants: `/health/live` and `/health` never touch the database; however often the public
//! endpoints are asked, the database is asked at most once a second for each of them; every label
//! of every metric has a bounded number of values; a counter never goes back within a process.
//! A metric costs memory once, not for each request: histograms are fixed arrays of counters.
//!
//! Deliberately absent: sampling in the background. What can be read is read when somebody asks.
//!
//! What monitoring wants to know of domains that it may not name comes through the traits
//! [`ReportsBootstrap`], `runtime::Domain` and `agentd_base::HealthCheck`, wired in `compose`.

mod error;
mod model;
mod probe;
mod readiness;
mod routes;
mod service;
mod store;

pub use error::NotReady;
pub use model::{ApiIndex, HealthView, LivenessView, PublicHealthView, ReadinessView};
pub use readiness::{Phase, Readiness, RestoreGuard};
pub use routes::{Gate, refuse_unless_ready, routes, starting_routes};
pub use service::{Monitoring, ReportsBootstrap};
