//! Exponential backoff as a pure function of the attempt, including jitter.

use std::time::Duration;

/// Retry schedule: `base * multiplier^(attempt - 1)`, capped at `cap`, spread by `jitter`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    pub base: Duration,
    pub multiplier: f64,
    pub cap: Duration,
    /// Maximum relative deviation of the delay in either direction; 0.2 is ±20 %.
    pub jitter: f64,
}

impl Backoff {
    /// Returns the delay after failed attempt number `attempt` (the first is 1). `unit` is a uniform random number in
    /// `0.0..=1.0`; 0.5 gives the delay without jitter.
    #[must_use]
    pub fn delay(&self, attempt: u32, unit: f64) -> Duration {
        let exponent = f64::from(attempt.saturating_sub(1));
        let plain = (self.base.as_secs_f64() * self.multiplier.powf(exponent)).min(self.cap.as_secs_f64());
        let factor = 1.0 + self.jitter * (unit.clamp(0.0, 1.0) * 2.0 - 1.0);
        Duration::try_from_secs_f64(plain * factor).unwrap_or(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn delay_stays_within_jitter_bounds(attempt in 1u32..2000, unit in 0.0f64..=1.0) {
            let backoff = Backoff {
                base: Duration::from_secs(10),
                multiplier: 2.0,
                cap: Duration::from_secs(3600),
                jitter: 0.2,
            };
            let plain = backoff.delay(attempt, 0.5).as_secs_f64();
            let spread = backoff.delay(attempt, unit).as_secs_f64();
            prop_assert!(plain <= 3600.0);
            prop_assert!(spread >= plain * 0.8 - 1e-6 && spread <= plain * 1.2 + 1e-6);
        }
    }
}
