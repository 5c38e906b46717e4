//! When a failed attempt of a run is repeated.

use std::time::Duration;

use agentd_base::Problems;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::named;

const MOST_ATTEMPTS: u32 = 10;
const LONGEST_BASE_SECONDS: u32 = 86_400;
/// However an exponential delay grows.
const LONGEST_DELAY: Duration = Duration::from_secs(86_400);
const DEFAULT_BASE_SECONDS: u32 = 60;
/// An attempt that was cut off by the end of its daemon failed through no fault of its own: a run begins again
/// after that up to so many times in all, whatever its rule says.
const ATTEMPTS_WHEN_CUT_OFF: u32 = 3;

named!(RetryStrategy {
    /// A failed attempt is the last.
    None = "none",
    /// The same delay each time.
    Fixed = "fixed",
    /// One more base delay each time.
    Linear = "linear",
    /// Twice the delay each time, up to a day.
    Exponential = "exponential",
});

/// How often a run is attempted, and after which delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetryRule {
    /// All attempts of a run together, the first included. Default 3, with the strategy `none` 1.
    #[serde(default = "default_attempts")]
    #[schema(minimum = 1, maximum = 10)]
    pub max_attempts: u32,
    /// Default `exponential`.
    #[serde(default = "default_strategy")]
    pub strategy: RetryStrategy,
    /// Seconds. Default 60.
    #[serde(default = "default_base")]
    #[schema(minimum = 0, maximum = 86_400)]
    pub base_delay: u32,
}

fn default_attempts() -> u32 {
    3
}

fn default_strategy() -> RetryStrategy {
    RetryStrategy::Exponential
}

fn default_base() -> u32 {
    DEFAULT_BASE_SECONDS
}

impl Default for RetryRule {
    /// For jobs that say nothing: no second attempt.
    fn default() -> Self {
        Self { max_attempts: 1, strategy: RetryStrategy::None, base_delay: 0 }
    }
}

impl RetryRule {
    pub(super) fn check(&self, problems: &mut Problems) {
        problems.require(
            (1..=MOST_ATTEMPTS).contains(&self.max_attempts),
            "retry.max_attempts",
            format!("is between 1 and {MOST_ATTEMPTS}"),
        );
        problems.require(
            self.base_delay <= LONGEST_BASE_SECONDS,
            "retry.base_delay",
            format!("is between 0 and {LONGEST_BASE_SECONDS} seconds"),
        );
    }

    /// The delay before the attempt after number `attempt`, which failed; `None`: it was the last.
    #[must_use]
    pub fn delay_after(&self, attempt: u32) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        let base = u64::from(self.base_delay);
        let seconds = match self.strategy {
            RetryStrategy::None => return None,
            RetryStrategy::Fixed => base,
            RetryStrategy::Linear => base.saturating_mul(u64::from(attempt)),
            RetryStrategy::Exponential => base.saturating_mul(1 << attempt.saturating_sub(1).min(30)),
        };
        Some(Duration::from_secs(seconds).min(LONGEST_DELAY))
    }

    /// The same for an attempt that ended with its daemon: at once, if there may be another one.
    #[must_use]
    pub fn delay_after_cut_off(&self, attempt: u32) -> Option<Duration> {
        (attempt < self.max_attempts.max(ATTEMPTS_WHEN_CUT_OFF)).then_some(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delays(strategy: RetryStrategy) -> Vec<Option<u64>> {
        let rule = RetryRule { max_attempts: 4, strategy, base_delay: 10 };
        (1..=4).map(|attempt| rule.delay_after(attempt).map(|delay| delay.as_secs())).collect()
    }

    #[test]
    fn each_strategy_has_its_delays() {
        assert_eq!(delays(RetryStrategy::None), [None; 4]);
        assert_eq!(delays(RetryStrategy::Fixed), [Some(10), Some(10), Some(10), None]);
        assert_eq!(delays(RetryStrategy::Linear), [Some(10), Some(20), Some(30), None]);
        assert_eq!(delays(RetryStrategy::Exponential), [Some(10), Some(20), Some(40), None]);
    }

    #[test]
    fn what_was_cut_off_begins_again_without_a_rule() {
        let none = RetryRule::default();
        assert_eq!((1..=3).map(|a| none.delay_after_cut_off(a).is_some()).collect::<Vec<_>>(), [true, true, false]);
    }

    proptest! {
        #[test]
        fn attempts_end_and_delays_are_bounded(max in 1_u32..=10, base in 0_u32..=86_400, attempt in 1_u32..1_000_000) {
            for strategy in [RetryStrategy::Fixed, RetryStrategy::Linear, RetryStrategy::Exponential] {
                let rule = RetryRule { max_attempts: max, strategy, base_delay: base };
                let delay = rule.delay_after(attempt);
                prop_assert_eq!(delay.is_some(), attempt < max);
                prop_assert!(delay.unwrap_or_default() <= LONGEST_DELAY);
            }
        }
    }
}
