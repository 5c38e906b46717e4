//! What calls of models used, by what people ask for.

use std::collections::BTreeMap;

use agentd_core::rollups::UsageSum;
use serde::Serialize;
use utoipa::ToSchema;

/// Between these shares of change it goes neither up nor down.
const FLAT_PERCENT: f64 = 1.0;

/// What a model used since the first call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ModelTokens {
    pub model: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    /// Of `input_tokens`.
    pub cache_read_tokens: u64,
    /// Of `input_tokens`.
    pub cache_write_tokens: u64,
    /// Of `output_tokens`.
    pub reasoning_tokens: u64,
    pub calls: u64,
    /// In US dollars, of the calls whose price is known; `null` where none is.
    pub cost_estimate: Option<f64>,
    /// Calls whose price is not known.
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

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ProjectTokens {
    /// `unassigned` for usage without a project.
    pub project_id: String,
    /// `Unassigned` for usage without a project, `Deleted project` for a deleted one.
    pub project_name: String,
    pub tokens_used: u64,
    /// Of all tokens, 0 to 100.
    pub percentage: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Up,
    Down,
    /// A change of less than 1 %.
    Flat,
}

/// The last seven days, today included, against the seven before them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Trend {
    pub direction: Direction,
    /// `null` where nothing was used before.
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
            change if change >= FLAT_PERCENT => Direction::Up,
            change if change <= -FLAT_PERCENT => Direction::Down,
            _ => Direction::Flat,
        };
        Self { direction, change_percent: Some((change * 100.0).round() / 100.0) }
    }
}

/// Answer of `GET /api/monitoring/tokens`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TokensView {
    /// Input and output of all time.
    pub total_used: u64,
    /// `null`: none.
    pub total_limit: Option<u64>,
    /// Since midnight in the profile's time zone: what the limit of the day is held against. A call belongs to the day
    /// on which it ended, in the zone that was set then.
    pub used_today: u64,
    pub limit_today: Option<u64>,
    /// In US dollars, of all time and of the calls whose price is known; `null` where none is.
    pub cost_estimate: Option<f64>,
    /// Calls whose price is not known.
    pub unpriced_calls: u64,
    /// By the name of the model.
    pub by_model: BTreeMap<String, ModelTokens>,
    /// Those with the most tokens first.
    pub by_project: Vec<ProjectTokens>,
    pub trend: Trend,
}

/// A bucket of `GET /api/monitoring/tokens/history`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TokensPoint {
    /// The day, `2026-01-31`, or of `period=day` when the hour begins, `2026-01-31T09:00:00.000Z`.
    #[schema(example = "2026-01-31")]
    pub date: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
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

/// A part of 100, with two digits.
#[allow(clippy::cast_precision_loss, reason = "a share")]
pub(crate) fn percentage(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { (part as f64 / all as f64 * 10_000.0).round() / 100.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_needs_something_to_be_held_against() {
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
