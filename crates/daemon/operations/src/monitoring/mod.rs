//! Health and figures: the probes, the public health answer, the index, the metrics, and what the machine does.
//!
//! Invariants: `/health/live` and `/health` never touch the database; however often the public
//! endpoints are asked, the database is asked at most once a second for each of them; every label
//! of every metric has a bounded number of values; a counter never goes back within a process.
//! A metric costs memory once, not for each request: histograms are fixed arrays of counters.
//! A figure of a period is read from the buckets of `rollups`, and so costs by the period and not by what happened in
//! it. What is unknown is null.
//!
//! Deliberately absent: sampling in the background. What can be read is read when somebody asks.
//!
//! What monitoring wants to know of domains that it may not name comes through the traits
//! [`ReportsBootstrap`], [`ReportsQueue`], and `agentd_core::runtime::HealthCheck`, wired in `compose`.

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
pub use routes::{Gate, refuse_unless_ready, starting_routes};
pub use service::{FigureSources, Monitoring, ReportsBootstrap, ReportsQueue, TokensPeriod};
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
