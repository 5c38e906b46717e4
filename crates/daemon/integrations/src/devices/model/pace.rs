//! The rate limit of a connection: a burst, then a constant rate.

use std::time::Duration;

/// Maximum number of frames in a burst.
const BURST: f64 = 200.0;
const FRAMES_PER_SECOND: f64 = 100.0;

/// The token bucket of one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    allowance: f64,
}

impl Pace {
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { allowance: BURST }
    }

    /// Counts a frame that arrived `elapsed` after the previous one. Returns how long to wait before reading the next
    /// frame.
    pub(crate) fn count(&mut self, elapsed: Duration) -> Duration {
        self.allowance = (self.allowance + elapsed.as_secs_f64() * FRAMES_PER_SECOND).min(BURST) - 1.0;
        if self.allowance >= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(-self.allowance / FRAMES_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_passes_and_excess_is_slowed_to_the_rate() {
        let mut pace = Pace::new();
        assert!((0..200).all(|_| pace.count(Duration::ZERO).is_zero()));
        let mut waited = Duration::ZERO;
        let mut pause = Duration::ZERO;
        for _ in 0..1000 {
            pause = pace.count(pause);
            waited += pause;
        }
        assert!((Duration::from_millis(9_900)..Duration::from_millis(10_100)).contains(&waited), "{waited:?}");
    }
}
