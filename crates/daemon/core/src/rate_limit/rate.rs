//! Token bucket that refills at a constant rate.

use std::time::Duration;

use agentd_base::Timestamp;

/// Number of events allowed per minute, in a burst or spread out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub per_minute: u32,
}

impl Rate {
    fn seconds_per_token(self) -> f64 {
        60.0 / f64::from(self.per_minute.max(1))
    }
}

/// State of a token bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    tokens: f64,
    at: Timestamp,
}

impl Bucket {
    pub(super) fn full(rate: Rate, now: Timestamp) -> Self {
        Self { tokens: f64::from(rate.per_minute), at: now }
    }

    /// Takes one token.
    ///
    /// # Errors
    /// Time until a token is available.
    pub(super) fn take(&mut self, rate: Rate, now: Timestamp) -> Result<(), Duration> {
        // A clock that was set back adds no tokens, and the same period is not counted twice later.
        let gained = now.since(self.at).as_secs_f64() / rate.seconds_per_token();
        self.tokens = (self.tokens + gained).min(f64::from(rate.per_minute));
        self.at = now;
        if self.tokens < 1.0 {
            let missing = (1.0 - self.tokens) * rate.seconds_per_token();
            return Err(Duration::try_from_secs_f64(missing).unwrap_or(Duration::from_secs(60)));
        }
        self.tokens -= 1.0;
        Ok(())
    }

    /// Returns an unused token.
    pub(super) fn put_back(&mut self) {
        self.tokens += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: Rate = Rate { per_minute: 60 };

    #[test]
    fn bucket_allows_burst_then_steady_rate() {
        let start = Timestamp::from_micros(0);
        let mut bucket = Bucket::full(RATE, start);
        for _ in 0..60 {
            bucket.take(RATE, start).unwrap();
        }
        assert_eq!(bucket.take(RATE, start), Err(Duration::from_secs(1)));
        assert_eq!(bucket.take(RATE, start + Duration::from_secs(1)), Ok(()));
        assert!(bucket.take(RATE, start + Duration::from_secs(1)).is_err());
    }

    proptest! {
        #[test]
        fn no_minute_admits_more_than_twice_the_rate(steps in prop::collection::vec(0u64..3_000, 1..400)) {
            let mut now = Timestamp::from_micros(0);
            let mut bucket = Bucket::full(RATE, now);
            let mut taken = Vec::new();
            for step in steps {
                now = now + Duration::from_millis(step);
                match bucket.take(RATE, now) {
                    Ok(()) => taken.push(now),
                    // A client that waits for the returned time is admitted.
                    Err(wait) => {
                        let mut later = bucket;
                        prop_assert!(later.take(RATE, now + wait + Duration::from_micros(10)).is_ok());
                    }
                }
            }
            for (at, first) in taken.iter().enumerate() {
                let within = taken[at..].iter().take_while(|other| other.since(*first) < Duration::from_secs(60)).count();
                prop_assert!(within <= 120);
            }
        }
    }
}
