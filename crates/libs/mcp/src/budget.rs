//! Rate limit for unexpected messages from a server.
//!
//! A flooding server is not disconnected but read more slowly, so that it waits on its own pipe or connection instead
//! of consuming the daemon's time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

const BURST: f64 = 500.0;
const REFILL_PER_SECOND: f64 = 200.0;
/// Parsing this many bytes costs one unit, in addition to one unit per message.
const PARSED_BYTES_PER_UNIT: usize = 16 * 1024;
/// Skipping is cheaper than parsing.
const SKIPPED_BYTES_PER_UNIT: usize = 64 * 1024;

/// Token bucket shared by all clones. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Mutex<Bucket>>);

#[derive(Debug)]
struct Bucket {
    /// Negative while the bucket is overdrawn.
    units: f64,
    refilled_at: Instant,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Bucket { units: BURST, refilled_at: Instant::now() })))
    }

    pub(crate) fn charge_message(&self, bytes: usize) {
        self.charge(1 + bytes / PARSED_BYTES_PER_UNIT);
    }

    pub(crate) fn charge_skipped(&self, bytes: usize) {
        self.charge_exactly(bytes as f64 / SKIPPED_BYTES_PER_UNIT as f64);
    }

    fn charge(&self, units: usize) {
        self.charge_exactly(units as f64);
    }

    fn charge_exactly(&self, units: f64) {
        let mut bucket = self.0.lock();
        bucket.refill();
        bucket.units -= units;
    }

    /// Waits until the bucket is not overdrawn. Cancel-safe.
    pub(crate) async fn wait(&self) {
        loop {
            let deficit = {
                let mut bucket = self.0.lock();
                bucket.refill();
                -bucket.units
            };
            if deficit <= 0.0 {
                return;
            }
            tokio::time::sleep(Duration::from_secs_f64(deficit / REFILL_PER_SECOND)).await;
        }
    }
}

impl Bucket {
    fn refill(&mut self) {
        let now = Instant::now();
        let earned = now.duration_since(self.refilled_at).as_secs_f64() * REFILL_PER_SECOND;
        self.units = (self.units + earned).min(BURST);
        self.refilled_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn burst_is_free_and_flood_is_delayed() {
        let budget = Budget::new();
        let start = Instant::now();
        for _ in 0..500 {
            budget.charge_message(10);
            budget.wait().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..2_000 {
            budget.charge_message(10);
            budget.wait().await;
        }
        let waited = start.elapsed();
        assert!(waited >= Duration::from_secs(9) && waited <= Duration::from_secs(13), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn deficit_is_refilled_over_time() {
        let budget = Budget::new();
        budget.charge_skipped(1 << 30);
        tokio::time::sleep(Duration::from_secs(120)).await;
        let start = Instant::now();
        budget.wait().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
