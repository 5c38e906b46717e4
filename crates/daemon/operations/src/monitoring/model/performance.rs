//! Latencies, throughput and failure rates.

use agentd_base::Timestamp;
use agentd_core::runtime::Recorded;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::health::error_rate;

/// Maximum number of points per response.
pub(crate) const MAX_POINTS: usize = 1_500;

/// Statistics of API requests in a period.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RequestFigures {
    pub count: u64,
    pub per_second: f64,
    /// Share of requests that failed with a 5xx status, 0 to 1. This field and the percentiles are `null` without
    /// requests.
    pub error_rate: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

impl RequestFigures {
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    pub(crate) fn of(recorded: &Recorded, seconds: f64) -> Self {
        let count = recorded.latency.count();
        let [p50_ms, p95_ms, p99_ms] = recorded.latency.quantiles_ms([0.5, 0.95, 0.99]);
        Self {
            count,
            per_second: (count as f64 / seconds.max(1.0) * 1e3).round() / 1e3,
            error_rate: error_rate(recorded),
            p50_ms,
            p95_ms,
            p99_ms,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RouteFigures {
    /// Method and path, such as `GET /api/agents/{name}`.
    pub route: String,
    #[serde(flatten)]
    pub figures: RequestFigures,
}

/// Statistics of agent turns in a period.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TurnFigures {
    pub count: u64,
    /// Share of turns that failed or were interrupted, 0 to 1; `null` without turns.
    pub error_rate: Option<f64>,
    /// 95th percentile of the time to the first token, in milliseconds.
    pub first_token_p95_ms: Option<f64>,
    pub duration_p95_ms: Option<f64>,
}

impl TurnFigures {
    pub(crate) fn of(turns: &Recorded, first_tokens: &Recorded) -> Self {
        Self {
            count: turns.latency.count(),
            error_rate: error_rate(turns),
            first_token_p95_ms: first_tokens.latency.quantile_ms(0.95),
            duration_p95_ms: turns.latency.quantile_ms(0.95),
        }
    }
}

/// Statistics of calls to one provider or tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CallFigures {
    /// Name of the provider or tool.
    pub name: String,
    pub count: u64,
    pub error_rate: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
}

impl CallFigures {
    pub(crate) fn of(name: String, recorded: &Recorded) -> Self {
        let [p50_ms, p95_ms] = recorded.latency.quantiles_ms([0.5, 0.95]);
        Self { name, count: recorded.latency.count(), error_rate: error_rate(recorded), p50_ms, p95_ms }
    }
}

/// Depth of a durable queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct QueueDepth {
    /// `hook_deliveries`, or the name of another queue.
    pub queue: String,
    /// Number of waiting items, including those waiting for a retry.
    pub pending: u64,
    /// Number of items in progress.
    pub leased: u64,
    /// Number of dead-lettered items.
    pub dead_letter: u64,
}

/// Response of `GET /api/monitoring/performance`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PerformanceView {
    /// Length of the window in seconds: five minutes, extended to the start of a minute.
    pub window_seconds: u64,
    pub requests: RequestFigures,
    /// The 20 slowest routes by p95 latency.
    pub routes: Vec<RouteFigures>,
    pub turns: TurnFigures,
    /// Model calls by provider.
    pub providers: Vec<CallFigures>,
    pub tools: Vec<CallFigures>,
    pub queues: Vec<QueueDepth>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryPeriod {
    Hour,
    #[default]
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
}

impl HistoryPeriod {
    fn hours(self) -> usize {
        match self {
            Self::Hour => 1,
            Self::Day => 24,
            Self::Week => 7 * 24,
            Self::Month => 30 * 24,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    Minute,
    Hour,
    Day,
}

impl Granularity {
    /// Returns the default granularity of a period.
    pub(crate) fn default_for(period: HistoryPeriod) -> Self {
        match period {
            HistoryPeriod::Hour => Self::Minute,
            HistoryPeriod::Day | HistoryPeriod::Week => Self::Hour,
            HistoryPeriod::Month => Self::Day,
        }
    }

    /// Returns the length of an interval in minutes.
    pub(crate) fn minutes(self) -> usize {
        match self {
            Self::Minute => 1,
            Self::Hour => 60,
            Self::Day => 24 * 60,
        }
    }

    /// Returns the number of points in a period.
    pub(crate) fn points(self, period: HistoryPeriod) -> usize {
        match self {
            Self::Minute => period.hours() * 60,
            Self::Hour => period.hours(),
            Self::Day => period.hours().div_ceil(24),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PerformancePoint {
    /// Start of the interval.
    pub start: Timestamp,
    pub requests: RequestFigures,
    pub turns: TurnFigures,
}

/// Response of `GET /api/monitoring/performance/history`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PerformanceHistory {
    pub period: HistoryPeriod,
    pub granularity: Granularity,
    /// Points, oldest first, including empty intervals. The last interval is still in progress.
    pub points: Vec<PerformancePoint>,
}
