//! Wakes readers when transactions that were open have settled.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::shared::Shared;
use crate::topic::OUTBOX;

/// When to look again for events that are committed but not final: soon, since most transactions are short, and then
/// less and less often, since some are not.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(2);

pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(32);

pub(super) fn pause_after(looks: u32) -> Duration {
    FIRST_LOOK.saturating_mul(1 << looks.min(16)).min(LONGEST_PAUSE)
}

/// Wakes the watchers after a moment, once, however many readers ask for it meanwhile: each of them
/// is woken, and would ask again.
pub(super) fn wake_soon(shared: &Arc<Shared>) {
    if shared.is_outbox_wake_due.swap(true, Ordering::AcqRel) {
        return;
    }
    let pause = pause_after(shared.outbox_looks.fetch_add(1, Ordering::Relaxed));
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        // First, so that who reads too early once more is woken once more.
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
    fn who_looks_in_vain_looks_less_and_less_often() {
        let pauses: Vec<u128> = [0, 1, 2, 3, 4, 5, u32::MAX].map(|looks| pause_after(looks).as_millis()).to_vec();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 32, 32]);
    }

    #[tokio::test(start_paused = true)]
    async fn readers_that_look_too_early_share_one_timer() {
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
            outbox_looks: AtomicU32::new(0),
            idempotency_records: AtomicU64::new(0),
        });
        let signal = shared.signals.signal(OUTBOX.name());
        for wakes in 1..=3 {
            for _ in 0..100 {
                wake_soon(&shared);
            }
            tokio::time::sleep(LONGEST_PAUSE * 2).await;
            assert_eq!(signal.generation(), wakes);
        }
    }
}
