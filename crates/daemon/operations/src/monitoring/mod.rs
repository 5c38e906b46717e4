//! Health and metrics: probes, public health endpoints, the API index, Prometheus metrics, and the state of the
//! machine.
//!
//! Invariants: `/health/live` and `/health` never access the database. Each public endpoint queries the database at
//! most once a second, independent of the request rate. Every label of every metric has a bounded number of values, and
//! a counter never decreases within a process.
//! A metric costs memory once and not per request: histograms are fixed arrays of counters. A value over a period is
//! read from the buckets of `rollups`, so its cost depends on the period and not on the number of events. Unknown
//! values are null.
//!
//! Nothing is sampled in the background; values are read when they are requested.
//!
//! Domains that monitoring must not depend on implement [`BootstrapReporter`], [`QueueReporter`], and
//! `agentd_core::runtime::HealthCheck`, wired in `compose`.

mod disk;
mod error;
mod model;
mod probe;
mod readiness;
mod routes;
mod service;
mod store;
mod system;

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::MetricList;

use routes::routes;

pub use error::{MonitoringError, NotReady};
pub use model::{
    ActivityView, AgentUsage, AnalyticsView, ApiIndex, CallFigures, ComponentView, ComponentsView, DayCounts, DayView,
    Granularity, HealthView, HistoryPeriod, KeyUsage, LivenessView, ModelTokens, PerformanceHistory, PerformancePoint,
    PerformanceView, ProjectTokens, PublicHealthView, QueueDepth, ReadinessView, RecentEvent, RequestFigures,
    RouteFigures, SourceUsage, TokensPoint, TokensView, ToolUsage, TopAgent, Trend, TurnFigures, TypeActivity,
    UsageTotals, UsageView,
};
pub use readiness::{Phase, Readiness, RestoreGuard};
pub use routes::{Gate, reject_unless_ready, starting_routes};
pub use service::{BootstrapReporter, Monitoring, QueueReporter, StatisticsSources, TokensPeriod};
pub use system::{SystemLoad, SystemProbe};

impl Domain for Monitoring {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: Vec::new(),
            metrics: MetricList::default(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}
