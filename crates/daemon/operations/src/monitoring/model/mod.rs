//! Response bodies of probes and statistics.

mod health;
mod performance;
mod tokens;
mod usage;
mod workers;

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

pub use health::{ComponentView, ComponentsView};
pub(super) use health::{WorkerState, millis, rate_calls, rate_requests, rate_workers, worst};
pub(super) use performance::MAX_POINTS;
pub use performance::{
    CallFigures, Granularity, HistoryPeriod, PerformanceHistory, PerformancePoint, PerformanceView, QueueDepth,
    RequestFigures, RouteFigures, TurnFigures,
};
pub(super) use tokens::percentage;
pub use tokens::{ModelTokens, ProjectTokens, TokensPoint, TokensView, Trend};
pub(super) use usage::summary;
pub use usage::{
    ActivityView, AgentUsage, AnalyticsView, DayCounts, DayView, KeyUsage, RecentEvent, SourceUsage, ToolUsage,
    TopAgent, TypeActivity, UsageTotals, UsageView,
};
pub(super) use workers::{RetentionView, WorkerList, WorkerView};

/// Response of `GET /health`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct HealthView {
    /// `healthy`, `degraded` (the database was unavailable at the last check), or the phase: `starting`, `restoring` or
    /// `draining`.
    #[schema(example = "healthy")]
    pub status: &'static str,
    /// Version of the daemon.
    pub version: &'static str,
    /// Time since the daemon started, in seconds.
    pub uptime_seconds: u64,
}

/// Response of `GET /health/live`.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct LivenessView {
    /// Always `alive`.
    #[schema(example = "alive")]
    pub status: &'static str,
}

/// Response of `GET /health/ready` when the daemon is ready.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct ReadinessView {
    /// Always `ready`; otherwise the response is 503.
    #[schema(example = "ready")]
    pub status: &'static str,
}

/// Response of `GET /api/health`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PublicHealthView {
    /// Status as in `GET /health`.
    #[schema(example = "healthy")]
    pub status: &'static str,
    /// Whether no API key was ever created, so that the setup wizard is available.
    pub bootstrap_mode: bool,
    /// Version of the daemon.
    pub version: &'static str,
}

/// Response of `GET /api/`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ApiIndex {
    /// Name of the program: `agentd`.
    pub name: &'static str,
    /// Version of the daemon.
    pub version: &'static str,
    /// Paths of entry points by name.
    pub links: BTreeMap<&'static str, &'static str>,
}

/// Version of this program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Status of a ready daemon.
pub(super) const HEALTHY: &str = "healthy";
pub(super) const DEGRADED: &str = "degraded";
