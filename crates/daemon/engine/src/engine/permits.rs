//! Permits for background turns. A bounded number of them calls one provider concurrently, so that many jobs due at the
//! same second neither exceed its rate limit nor delay interactive chats. Waiting turns are served fairly by client
//! (job, webhook, hook, sender on a chat platform): a burst of one client delays others by at most one of its turns.
//!
//! A permit is local to this process. It is acquired before a turn starts and released when the turn ends or is parked.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_inference::FairQueue;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::providers::LOCAL;

/// Maximum number of concurrent background turns per remote provider.
const MAX_TURNS_PER_REMOTE_PROVIDER: usize = 8;
/// Maximum number of concurrent background turns of the built-in model, which answers one request at a time.
const MAX_TURNS_OF_LOCAL_MODEL: usize = 1;

/// Permits by provider. Bounded by the number of providers.
#[derive(Debug, Default)]
pub(super) struct BackgroundPermits(Mutex<HashMap<String, Permits>>);

impl BackgroundPermits {
    pub(super) fn of(&self, provider: &str) -> Permits {
        let mut permits = self.0.lock();
        let permits = permits.entry(provider.to_owned()).or_insert_with(|| {
            Permits::new(if provider == LOCAL { MAX_TURNS_OF_LOCAL_MODEL } else { MAX_TURNS_PER_REMOTE_PROVIDER })
        });
        permits.clone()
    }
}

/// The permits of one provider.
#[derive(Debug, Clone)]
pub(super) struct Permits(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// Bounded by the queues of the callers. Entries whose receiver is gone are skipped.
    waiting: FairQueue<oneshot::Sender<BackgroundPermit>>,
}

impl Permits {
    fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: count, waiting: FairQueue::new(usize::MAX) })))
    }

    /// Returns a permit if one is free.
    pub(super) fn try_acquire(&self) -> Option<BackgroundPermit> {
        let mut state = self.0.lock();
        state.free = state.free.checked_sub(1)?;
        Some(BackgroundPermit(self.clone()))
    }

    /// Waits for a permit, behind at most one turn of each other client.
    pub(super) async fn acquire(&self, client: &str) -> BackgroundPermit {
        loop {
            let receiver = {
                let mut state = self.0.lock();
                if let Some(free) = state.free.checked_sub(1) {
                    state.free = free;
                    return BackgroundPermit(self.clone());
                }
                let (sender, receiver) = oneshot::channel();
                state.waiting.retain(|other| !other.is_closed());
                state.waiting.push(&client.into(), sender);
                receiver
            };
            // The sender is not dropped while this receiver exists.
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }

    /// Hands a permit to the next waiting client.
    fn release(&self) {
        let mut state = self.0.lock();
        let next = loop {
            match state.waiting.pop(|_| true) {
                Some((_, sender)) if sender.is_closed() => {}
                next => break next,
            }
        };
        let Some((_, sender)) = next else {
            state.free += 1;
            return;
        };
        drop(state);
        // A permit that is not received is dropped and released again.
        let _ = sender.send(BackgroundPermit(self.clone()));
    }
}

/// Permission for one background turn to call a provider; released on drop.
#[derive(Debug)]
pub struct BackgroundPermit(Permits);

impl Drop for BackgroundPermit {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn burst_of_one_client_delays_others_by_one_turn() {
        let permits = Permits::new(1);
        let mut held = Some(permits.acquire("flood").await);
        let mut flood: Vec<_> = (0..100).map(|_| Box::pin(permits.acquire("flood"))).collect();
        assert!(flood.iter_mut().all(|receiver| receiver.now_or_never().is_none()));
        let mut other = Box::pin(permits.acquire("other"));
        assert!((&mut other).now_or_never().is_none());
        assert!(permits.try_acquire().is_none());
        // The first request of the flood is next, then the other client.
        held.take();
        let first = flood[0].as_mut().now_or_never();
        assert!(first.is_some() && (&mut other).now_or_never().is_none());
        drop(first);
        let got = other.await;
        assert!(flood[1].as_mut().now_or_never().is_none());
        // Dropped waiters are skipped, including one that was handed a permit and never took it.
        flood.drain(2..);
        drop(got);
        flood.clear();
        assert!(permits.try_acquire().is_some());
    }
}
