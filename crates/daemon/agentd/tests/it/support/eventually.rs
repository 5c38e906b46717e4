//! Polls until an asynchronous condition is true.

use std::fmt::Debug;
use std::panic::Location;
use std::time::Duration;

/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Equals about one minute. Attempts are counted, because the clock may be paused.
const MAX_ATTEMPTS: u32 = 12_000;

/// Limits a polling loop: `let mut eventually = Eventually::new(); while … { eventually.retry().await; }`.
pub struct Eventually {
    attempts: u32,
    caller: &'static Location<'static>,
}

impl Eventually {
    #[track_caller]
    pub fn new() -> Self {
        Self { attempts: 0, caller: Location::caller() }
    }

    /// Waits for one polling interval. Panics after about one minute of attempts.
    pub async fn retry(&mut self) {
        self.retry_with(&"no details").await;
    }

    /// Behaves like [`retry`](Self::retry) and includes the last observed value in the panic message.
    pub async fn retry_with(&mut self, last: &dyn Debug) {
        self.attempts += 1;
        assert!(self.attempts < MAX_ATTEMPTS, "condition at {} not met in time; last value: {last:?}", self.caller);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
