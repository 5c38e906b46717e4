//! Wakes outbox readers once open transactions have settled.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::shared::Shared;
use crate::topic::OUTBOX;

/// Delay before the first retry for events that are committed but not settled. Most transactions are short; the delay
/// doubles for the others.
pub(super) const MIN_DELAY: Duration = Duration::from_millis(2);

pub(super) const MAX_DELAY: Duration = Duration::from_millis(32);

pub(super) fn retry_delay(retries: u32) -> Duration {
    MIN_DELAY.saturating_mul(1 << retries.min(16)).min(MAX_DELAY)
}

/// Wakes the watchers after a delay, once for all readers that ask in the meantime.
pub(super) fn wake_soon(shared: &Arc<Shared>) {
    if shared.is_outbox_wake_due.swap(true, Ordering::AcqRel) {
        return;
    }
    let delay = retry_delay(shared.outbox_retries.fetch_add(1, Ordering::Relaxed));
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        tokio::time::sleep(delay).await;
        // Cleared before the wake-up, so that a reader that is again too early gets another one.
        shared.is_outbox_wake_due.store(false, Ordering::Release);
        shared.signals.bump(OUTBOX.name());
    });
}

#[cfg(test)]
mod tests {
    use crate::Dialect;
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

    use agentd_base::id::IdGenerator;
    use agentd_base::{Clock, Entropy};
    use tokio::sync::watch;

    use super::*;
    use crate::topic::Signals;

    #[test]
    fn retry_delay_doubles_up_to_the_maximum() {
        let delays: Vec<u128> = [0, 1, 2, 3, 4, 5, u32::MAX].map(|retries| retry_delay(retries).as_millis()).to_vec();
        assert_eq!(delays, [2, 4, 8, 16, 32, 32, 32]);
    }

    #[tokio::test(start_paused = true)]
    async fn early_readers_share_one_timer() {
        let (clock, entropy) = (Clock::system(), Entropy::seeded(1));
        let shared = Arc::new(Shared {
            dialect: Dialect::Postgres,
            ids: IdGenerator::new(clock.clone(), entropy.clone()),
            clock,
            entropy,
            data_dir: std::path::PathBuf::new(),
            migrations: &[],
            is_scratch: false,
            is_simulated: false,
            signals: Signals::default(),
            is_outbox_wake_due: AtomicBool::new(false),
            commits: watch::Sender::new(0),
            outbox_retries: AtomicU32::new(0),
            idempotency_records: AtomicU64::new(0),
        });
        let signal = shared.signals.signal(OUTBOX.name());
        for wakes in 1..=3 {
            for _ in 0..100 {
                wake_soon(&shared);
            }
            tokio::time::sleep(MAX_DELAY * 2).await;
            assert_eq!(signal.generation(), wakes);
        }
    }
}
