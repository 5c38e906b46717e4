//! How fast a server may send what nobody asked for.
//!
//! A server that floods is not cut off: it is read more slowly, so that it waits on its own pipe
//! or connection instead of filling the daemon's time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

const BURST: f64 = 500.0;
const PER_SECOND: f64 = 200.0;
/// Parsing this much costs one unit more than looking at the message.
const PARSED_BYTES_PER_UNIT: usize = 16 * 1024;
/// Skipping is cheaper than parsing.
const SKIPPED_BYTES_PER_UNIT: usize = 64 * 1024;

/// Cheap to clone; clones share the account.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Mutex<Account>>);

#[derive(Debug)]
struct Account {
    /// Below zero: owed.
    units: f64,
    settled: Instant,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Account { units: BURST, settled: Instant::now() })))
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
        let mut account = self.0.lock();
        account.settle();
        account.units -= units;
    }

    /// Returns at once while nothing is owed. Dropping the future changes nothing.
    pub(crate) async fn wait(&self) {
        loop {
            let owed = {
                let mut account = self.0.lock();
                account.settle();
                -account.units
            };
            if owed <= 0.0 {
                return;
            }
            tokio::time::sleep(Duration::from_secs_f64(owed / PER_SECOND)).await;
        }
    }
}

impl Account {
    fn settle(&mut self) {
        let now = Instant::now();
        let earned = now.duration_since(self.settled).as_secs_f64() * PER_SECOND;
        self.units = (self.units + earned).min(BURST);
        self.settled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_a_flood_waits() {
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
    async fn what_is_owed_is_forgiven_after_a_while() {
        let budget = Budget::new();
        budget.charge_skipped(1 << 30);
        tokio::time::sleep(Duration::from_secs(120)).await;
        let start = Instant::now();
        budget.wait().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
