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
    /// Number of requests.
    pub count: u64,
    /// Requests per second, with three decimals.
    pub per_second: f64,
    /// Share of requests that failed with a 5xx status, 0 to 1; `null` without requests.
    pub error_rate: Option<f64>,
    /// Median latency in milliseconds; `null` without requests.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the latency in milliseconds; `null` without requests.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the latency in milliseconds; `null` without requests.
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

/// Statistics of the requests to one route.
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
    /// Number of finished turns.
    pub count: u64,
    /// Share of turns that failed or were interrupted, 0 to 1; `null` without turns.
    pub error_rate: Option<f64>,
    /// 95th percentile of the time to the first token in milliseconds; `null` if no tokens were received.
    pub first_token_p95_ms: Option<f64>,
    /// 95th percentile of the duration in milliseconds; `null` without turns.
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
    /// Number of calls.
    pub count: u64,
    /// Share of calls that failed, 0 to 1; `null` without calls.
    pub error_rate: Option<f64>,
    /// Median duration in milliseconds; `null` without calls.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the duration in milliseconds; `null` without calls.
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
    /// All API requests in the window.
    pub requests: RequestFigures,
    /// The 20 slowest routes by `p95_ms`, slowest first.
    pub routes: Vec<RouteFigures>,
    /// Agent turns that ended in the window.
    pub turns: TurnFigures,
    /// Model calls by provider, most calls first.
    pub providers: Vec<CallFigures>,
    /// Tool calls by tool, most calls first.
    pub tools: Vec<CallFigures>,
    /// Current depth of the durable queues.
    pub queues: Vec<QueueDepth>,
}

/// Period of a performance history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryPeriod {
    /// 60 minutes.
    Hour,
    /// 24 hours.
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

/// Length of the intervals of a history. Hours and days are in the time zone of the profile.
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

/// Statistics of one interval.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PerformancePoint {
    /// Start of the interval.
    pub start: Timestamp,
    /// API requests in the interval.
    pub requests: RequestFigures,
    /// Agent turns that ended in the interval.
    pub turns: TurnFigures,
}

/// Response of `GET /api/monitoring/performance/history`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PerformanceHistory {
    /// Requested period.
    pub period: HistoryPeriod,
    /// Length of the intervals: as requested, or the default of the period.
    pub granularity: Granularity,
    /// Points, oldest first, including empty intervals. The last interval is still in progress.
    pub points: Vec<PerformancePoint>,
}
