//! How long things take, and how many of them fail.

use agentd_base::Timestamp;
use agentd_core::runtime::Recorded;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::health::error_rate;

/// More points are not answered.
pub(crate) const MAX_POINTS: usize = 1_500;

/// Requests of the API within some time.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RequestFigures {
    pub count: u64,
    pub per_second: f64,
    /// The share that failed with a 5xx, 0 to 1; `null` without any request, as all that follow.
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
    /// Method and path, `GET /api/agents/{name}`.
    pub route: String,
    #[serde(flatten)]
    pub figures: RequestFigures,
}

/// Turns of agents within some time.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TurnFigures {
    pub count: u64,
    /// The share that failed or was cut off, 0 to 1; `null` without any turn.
    pub error_rate: Option<f64>,
    /// Below which 95 % of them had their first word.
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

/// Calls of one provider, or of one tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CallFigures {
    /// The provider, or the tool.
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

/// A durable queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct QueueDepth {
    /// `hook_deliveries`, or the name of a queue of another domain.
    pub queue: String,
    /// What waits, be it for its next attempt.
    pub pending: u64,
    /// What is worked on.
    pub leased: u64,
    /// What was given up.
    pub dead_letter: u64,
}

/// Answer of `GET /api/monitoring/performance`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PerformanceView {
    /// Five minutes, and what has passed of the minute in which they began.
    pub window_seconds: u64,
    pub requests: RequestFigures,
    /// The 20 slowest by their p95.
    pub routes: Vec<RouteFigures>,
    pub turns: TurnFigures,
    /// Calls of models.
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
    /// What shows a period well.
    pub(crate) fn fitting(period: HistoryPeriod) -> Self {
        match period {
            HistoryPeriod::Hour => Self::Minute,
            HistoryPeriod::Day | HistoryPeriod::Week => Self::Hour,
            HistoryPeriod::Month => Self::Day,
        }
    }

    /// How long one of it is.
    pub(crate) fn minutes(self) -> usize {
        match self {
            Self::Minute => 1,
            Self::Hour => 60,
            Self::Day => 24 * 60,
        }
    }

    /// How many points a period has.
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
    /// When it begins.
    pub start: Timestamp,
    pub requests: RequestFigures,
    pub turns: TurnFigures,
}

/// Answer of `GET /api/monitoring/performance/history`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PerformanceHistory {
    pub period: HistoryPeriod,
    pub granularity: Granularity,
    /// The oldest first, those without anything included. The last one is under way.
    pub points: Vec<PerformancePoint>,
}
