//! The answers of the probes and of the figures, and what they are made of.

mod health;
mod performance;
mod tokens;
mod usage;
mod workers;

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

pub use health::{ComponentView, ComponentsView};
pub(super) use health::{WorkerState, millis, of_calls, of_requests, of_workers, worst};
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

/// Answer of `GET /health`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct HealthView {
    /// `healthy`, `degraded` (the database was away when last asked), or the phase: `starting`,
    /// `restoring`, `draining`
    #[schema(example = "healthy")]
    pub status: &'static str,
    pub version: &'static str,
    pub uptime_seconds: u64,
}

/// Answer of `GET /health/live`.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct LivenessView {
    #[schema(example = "alive")]
    pub status: &'static str,
}

/// Answer of `GET /health/ready` when the daemon is ready.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct ReadinessView {
    #[schema(example = "ready")]
    pub status: &'static str,
}

/// Answer of `GET /api/health`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PublicHealthView {
    /// As in `GET /health`.
    #[schema(example = "healthy")]
    pub status: &'static str,
    /// Whether no API key was ever made, so that the setup wizard is open.
    pub bootstrap_mode: bool,
    pub version: &'static str,
}

/// Answer of `GET /api/`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ApiIndex {
    pub name: &'static str,
    pub version: &'static str,
    /// Where to go from here: a name and a path each.
    pub links: BTreeMap<&'static str, &'static str>,
}

/// The version of this program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The word for a daemon that is ready.
pub(super) const HEALTHY: &str = "healthy";
pub(super) const DEGRADED: &str = "degraded";
