//! Retry rules for failed attempts of a run.

use std::time::Duration;

use agentd_base::Problems;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

use super::string_enum;

const MAX_ATTEMPTS: u32 = 10;
const MAX_BASE_SECONDS: u32 = 86_400;
/// Upper bound of the delay between attempts.
const MAX_DELAY: Duration = Duration::from_secs(86_400);
const DEFAULT_BASE_SECONDS: u32 = 60;
/// Maximum number of attempts of a run whose attempts were interrupted by the end of the daemon, regardless of its
/// rule.
const MAX_INTERRUPTED_ATTEMPTS: u32 = 3;

string_enum!(
    /// Growth of the delay between attempts: `none` (no retry), `fixed` (constant), `linear` (grows by the base delay
    /// with each attempt) or `exponential` (doubles with each attempt, up to one day).
    RetryStrategy {
        /// No retry.
        None = "none",
        /// Constant delay.
        Fixed = "fixed",
        /// Delay that grows by the base delay with each attempt.
        Linear = "linear",
        /// Delay that doubles with each attempt, up to one day.
        Exponential = "exponential",
    }
);

/// Number of attempts of a run and the delay between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetryRule {
    /// Maximum number of attempts, including the first; 1 to 10. Default: 3.
    #[serde(default = "default_attempts")]
    #[schema(minimum = 1, maximum = 10)]
    pub max_attempts: u32,
    /// Growth of the delay between attempts. Default: `exponential`.
    #[serde(default = "default_strategy")]
    pub strategy: RetryStrategy,
    /// Base delay in seconds with millisecond precision, 0 to 86,400. Default: 60.
    #[serde(default = "default_base")]
    #[schema(value_type = f64, minimum = 0, maximum = 86_400)]
    pub base_delay: BaseDelay,
}

/// Changes to a retry rule. Omitted fields keep their value.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
pub struct RetryChange {
    /// Maximum number of attempts, including the first; 1 to 10.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 10)]
    pub max_attempts: Option<u32>,
    /// Growth of the delay between attempts.
    #[serde(default)]
    #[schema(value_type = RetryStrategy)]
    pub strategy: Option<RetryStrategy>,
    /// Base delay in seconds with millisecond precision, 0 to 86,400.
    #[serde(default)]
    #[schema(value_type = f64, minimum = 0, maximum = 86_400)]
    pub base_delay: Option<BaseDelay>,
}

impl From<RetryRule> for RetryChange {
    fn from(rule: RetryRule) -> Self {
        Self { max_attempts: Some(rule.max_attempts), strategy: Some(rule.strategy), base_delay: Some(rule.base_delay) }
    }
}

/// A delay, serialized in seconds; whole seconds have no fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BaseDelay {
    milliseconds: u64,
}

impl BaseDelay {
    #[must_use]
    pub const fn from_seconds(seconds: u32) -> Self {
        Self { milliseconds: seconds as u64 * 1_000 }
    }
}

impl Serialize for BaseDelay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.milliseconds.is_multiple_of(1_000) {
            return serializer.serialize_u64(self.milliseconds / 1_000);
        }
        serializer.serialize_f64(Duration::from_millis(self.milliseconds).as_secs_f64())
    }
}

impl<'de> Deserialize<'de> for BaseDelay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(de::Error::custom("a delay must be a non-negative number of seconds"));
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; too large values are rejected"
        )]
        let milliseconds = (seconds * 1_000.0).round() as u64;
        Ok(Self { milliseconds })
    }
}

fn default_attempts() -> u32 {
    3
}

fn default_strategy() -> RetryStrategy {
    RetryStrategy::Exponential
}

fn default_base() -> BaseDelay {
    BaseDelay::from_seconds(DEFAULT_BASE_SECONDS)
}

impl Default for RetryRule {
    /// Returns the rule of jobs without one: a single attempt.
    fn default() -> Self {
        Self { max_attempts: 1, strategy: RetryStrategy::None, base_delay: BaseDelay::default() }
    }
}

impl RetryRule {
    /// Returns the rule with the changes applied. If there was no rule before, the changes apply to the defaults.
    #[must_use]
    pub(super) fn changed(self, change: RetryChange) -> Self {
        let is_none = self == Self::default();
        let default =
            Self { max_attempts: default_attempts(), strategy: default_strategy(), base_delay: default_base() };
        let before = if is_none { default } else { self };
        Self {
            max_attempts: change.max_attempts.unwrap_or(before.max_attempts),
            strategy: change.strategy.unwrap_or(before.strategy),
            base_delay: change.base_delay.unwrap_or(before.base_delay),
        }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        problems.require(
            (1..=MAX_ATTEMPTS).contains(&self.max_attempts),
            "retry.max_attempts",
            format!("must be between 1 and {MAX_ATTEMPTS}"),
        );
        problems.require(
            self.base_delay.milliseconds <= BaseDelay::from_seconds(MAX_BASE_SECONDS).milliseconds,
            "retry.base_delay",
            format!("must be between 0 and {MAX_BASE_SECONDS} seconds"),
        );
    }

    /// Returns the delay after failed attempt `attempt`, or `None` if it was the last.
    #[must_use]
    pub fn delay_after(&self, attempt: u32) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        let base = self.base_delay.milliseconds;
        let milliseconds = match self.strategy {
            RetryStrategy::None => return None,
            RetryStrategy::Fixed => base,
            RetryStrategy::Linear => base.saturating_mul(u64::from(attempt)),
            RetryStrategy::Exponential => base.saturating_mul(1 << attempt.saturating_sub(1).min(30)),
        };
        Some(Duration::from_millis(milliseconds).min(MAX_DELAY))
    }

    /// Returns the delay after interrupted attempt `attempt`: zero, or `None` if it was the last.
    #[must_use]
    pub fn delay_after_interruption(&self, attempt: u32) -> Option<Duration> {
        (attempt < self.max_attempts.max(MAX_INTERRUPTED_ATTEMPTS)).then_some(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delays(strategy: RetryStrategy) -> Vec<Option<u64>> {
        let rule = RetryRule { max_attempts: 4, strategy, base_delay: BaseDelay::from_seconds(10) };
        (1..=4).map(|attempt| rule.delay_after(attempt).map(|delay| delay.as_secs())).collect()
    }

    #[test]
    fn strategies_compute_their_delays() {
        assert_eq!(delays(RetryStrategy::None), [None; 4]);
        assert_eq!(delays(RetryStrategy::Fixed), [Some(10), Some(10), Some(10), None]);
        assert_eq!(delays(RetryStrategy::Linear), [Some(10), Some(20), Some(30), None]);
        assert_eq!(delays(RetryStrategy::Exponential), [Some(10), Some(20), Some(40), None]);
    }

    #[test]
    fn interrupted_attempt_is_retried_without_a_rule() {
        let none = RetryRule::default();
        assert_eq!(
            (1..=3).map(|a| none.delay_after_interruption(a).is_some()).collect::<Vec<_>>(),
            [true, true, false]
        );
    }

    #[test]
    fn delay_round_trips_with_fraction() {
        for (given, kept) in [("0.5", "0.5"), ("1.0", "1"), ("60", "60"), ("0.0004", "0"), ("86400", "86400")] {
            let delay: BaseDelay = serde_json::from_str(given).unwrap();
            assert_eq!(serde_json::to_string(&delay).unwrap(), kept, "{given}");
        }
        let rule: RetryRule = serde_json::from_str(r#"{"strategy": "linear", "base_delay": 0.5}"#).unwrap();
        assert_eq!(rule.delay_after(2), Some(Duration::from_secs(1)));
        assert!(serde_json::from_str::<BaseDelay>("-1").is_err());
        let too_long: RetryRule = serde_json::from_str(r#"{"base_delay": 1e30}"#).unwrap();
        let mut problems = Problems::new();
        too_long.check(&mut problems);
        assert!(!problems.is_empty());
    }

    proptest! {
        #[test]
        fn attempts_and_delays_are_bounded(max in 1_u32..=10, base in 0_u32..=86_400, attempt in 1_u32..1_000_000) {
            for strategy in [RetryStrategy::Fixed, RetryStrategy::Linear, RetryStrategy::Exponential] {
                let rule = RetryRule { max_attempts: max, strategy, base_delay: BaseDelay::from_seconds(base) };
                let delay = rule.delay_after(attempt);
                prop_assert_eq!(delay.is_some(), attempt < max);
                prop_assert!(delay.unwrap_or_default() <= MAX_DELAY);
            }
        }
    }
}
