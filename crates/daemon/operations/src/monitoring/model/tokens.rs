//! Token usage of model calls.

use std::collections::BTreeMap;

use agentd_core::rollups::UsageSum;
use serde::Serialize;
use utoipa::ToSchema;

/// Minimum change in percent that counts as up or down.
const MIN_TREND_PERCENT: f64 = 1.0;

/// Usage of a model since the first call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ModelTokens {
    /// Name of the model.
    pub model: String,
    /// Number of input tokens, including cached ones.
    pub input_tokens: u64,
    /// Number of output tokens, including reasoning.
    pub output_tokens: u64,
    /// Sum of `input_tokens` and `output_tokens`.
    pub total_tokens: u64,
    /// Part of `input_tokens` read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Part of `input_tokens` written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Part of `output_tokens` used for reasoning.
    pub reasoning_tokens: u64,
    /// Number of model calls.
    pub calls: u64,
    /// Cost of the calls with a known price, in US dollars; `null` if there are none.
    pub cost_estimate: Option<f64>,
    /// Number of model calls with an unknown price, which `cost_estimate` does not include.
    pub unpriced_calls: u64,
}

impl ModelTokens {
    pub(crate) fn of(model: String, sum: &UsageSum) -> Self {
        Self {
            model,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            total_tokens: sum.total_tokens(),
            cache_read_tokens: sum.cache_read_tokens,
            cache_write_tokens: sum.cache_write_tokens,
            reasoning_tokens: sum.reasoning_tokens,
            calls: sum.calls,
            cost_estimate: sum.cost_usd(),
            unpriced_calls: sum.unpriced_calls,
        }
    }
}

/// Token usage of a project since the first call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ProjectTokens {
    /// Id of the project; `unassigned` for usage without a project.
    pub project_id: String,
    /// Name of the project; `Unassigned` for usage without a project, `Deleted project` for a deleted one.
    pub project_name: String,
    /// Number of input and output tokens.
    pub tokens_used: u64,
    /// Share of all tokens in percent, 0 to 100.
    pub percentage: f64,
}

/// Direction of a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Increased by at least 1 %.
    Up,
    /// Decreased by at least 1 %.
    Down,
    /// Changed by less than 1 %.
    Flat,
}

/// Comparison of the last seven days, including today, with the seven days before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Trend {
    /// Direction of the change.
    pub direction: Direction,
    /// Change in percent, with two decimals; `null` if nothing was used in the seven days before.
    pub change_percent: Option<f64>,
}

impl Trend {
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    pub(crate) fn between(before: u64, now: u64) -> Self {
        if before == 0 {
            return Self { direction: if now > 0 { Direction::Up } else { Direction::Flat }, change_percent: None };
        }
        let change = (now as f64 - before as f64) / before as f64 * 100.0;
        let direction = match change {
            change if change >= MIN_TREND_PERCENT => Direction::Up,
            change if change <= -MIN_TREND_PERCENT => Direction::Down,
            _ => Direction::Flat,
        };
        Self { direction, change_percent: Some((change * 100.0).round() / 100.0) }
    }
}

/// Response of `GET /api/monitoring/tokens`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TokensView {
    /// Number of input and output tokens since the first call.
    pub total_used: u64,
    /// Limit of `total_used`; `null` if no limit is set.
    pub total_limit: Option<u64>,
    /// Tokens used since midnight in the time zone of the profile, which count towards the daily limit. A call counts
    /// for the day on which it ended, in the time zone set at that time.
    pub used_today: u64,
    /// Limit of `used_today`; `null` if no limit is set.
    pub limit_today: Option<u64>,
    /// Total cost of the calls with a known price, in US dollars; `null` if there are none.
    pub cost_estimate: Option<f64>,
    /// Number of model calls with an unknown price, which `cost_estimate` does not include.
    pub unpriced_calls: u64,
    /// Usage by model name.
    pub by_model: BTreeMap<String, ModelTokens>,
    /// Usage by project, highest first.
    pub by_project: Vec<ProjectTokens>,
    pub trend: Trend,
}

/// Interval of `GET /api/monitoring/tokens/history`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TokensPoint {
    /// Day such as `2026-01-31`, or with `period=day` the start of the hour such as `2026-01-31T09:00:00.000Z`.
    #[schema(example = "2026-01-31")]
    pub date: String,
    /// Number of input tokens, including cached ones.
    pub input_tokens: u64,
    /// Number of output tokens, including reasoning.
    pub output_tokens: u64,
    /// Sum of `input_tokens` and `output_tokens`.
    pub total_tokens: u64,
}

impl TokensPoint {
    pub(crate) fn of(date: String, sum: &UsageSum) -> Self {
        Self {
            date,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            total_tokens: sum.total_tokens(),
        }
    }
}

/// Returns the percentage with two decimals.
#[allow(clippy::cast_precision_loss, reason = "a share")]
pub(crate) fn percentage(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { (part as f64 / all as f64 * 10_000.0).round() / 100.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trend_has_no_percentage_without_earlier_usage() {
        let trend = |before, now| {
            let trend = Trend::between(before, now);
            (trend.direction, trend.change_percent)
        };
        assert_eq!(trend(0, 0), (Direction::Flat, None));
        assert_eq!(trend(0, 5), (Direction::Up, None));
        assert_eq!(trend(200, 300), (Direction::Up, Some(50.0)));
        assert_eq!(trend(300, 200), (Direction::Down, Some(-33.33)));
        assert_eq!(trend(1_000, 1_009), (Direction::Flat, Some(0.9)));
        assert_eq!(trend(5, 0), (Direction::Down, Some(-100.0)));
    }
}
