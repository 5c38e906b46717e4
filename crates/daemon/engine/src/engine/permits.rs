//! Permits for turns that nobody waits for: a bounded number of them asks one provider at once, so that a
//! thousand jobs of the same second neither run into its rate limit nor keep a person's chat waiting. Those that
//! wait take turns by client (a job, a webhook, a hook, a person on a chat platform), so that a flood of one
//! keeps the others waiting for one of its turns at most.
//!
//! A permit belongs to this process. Whoever takes one before it starts a turn holds it until the turn is
//! over or waits for its owner.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_inference::FairQueue;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::providers::LOCAL;

/// Turns at once that ask one vendor.
const OF_A_VENDOR: usize = 8;
/// The model inside answers one question after the other.
const OF_THE_MODEL_INSIDE: usize = 1;

/// Bounded by the number of providers.
#[derive(Debug, Default)]
pub(super) struct BackgroundPermits(Mutex<HashMap<String, Permits>>);

impl BackgroundPermits {
    pub(super) fn of(&self, provider: &str) -> Permits {
        let mut permits = self.0.lock();
        let permits = permits
            .entry(provider.to_owned())
            .or_insert_with(|| Permits::new(if provider == LOCAL { OF_THE_MODEL_INSIDE } else { OF_A_VENDOR }));
        permits.clone()
    }
}

/// The permits of one provider.
#[derive(Debug, Clone)]
pub(super) struct Permits(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// Bounded by what the queues of those who ask hold at once. Whoever does not wait any more is passed over.
    waiting: FairQueue<oneshot::Sender<BackgroundPermit>>,
}

impl Permits {
    fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: count, waiting: FairQueue::new(usize::MAX) })))
    }

    /// A permit, if one is free.
    pub(super) fn try_acquire(&self) -> Option<BackgroundPermit> {
        let mut state = self.0.lock();
        state.free = state.free.checked_sub(1)?;
        Some(BackgroundPermit(self.clone()))
    }

    /// Waits for a permit, behind one turn of each other client at most.
    pub(super) async fn acquire(&self, client: &str) -> BackgroundPermit {
        loop {
            let waits = {
                let mut state = self.0.lock();
                if let Some(free) = state.free.checked_sub(1) {
                    state.free = free;
                    return BackgroundPermit(self.clone());
                }
                let (gives, waits) = oneshot::channel();
                state.waiting.retain(|other| !other.is_closed());
                state.waiting.push(&client.into(), gives);
                waits
            };
            // Nobody drops the other end unused while this one waits.
            if let Ok(permit) = waits.await {
                return permit;
            }
        }
    }

    /// Gives a permit on to whoever is next.
    fn give_back(&self) {
        let mut state = self.0.lock();
        let next = loop {
            match state.waiting.pop(|_| true) {
                Some((_, gives)) if gives.is_closed() => {}
                next => break next,
            }
        };
        let Some((_, gives)) = next else {
            state.free += 1;
            return;
        };
        drop(state);
        // One that is not taken comes back here when it is dropped.
        let _ = gives.send(BackgroundPermit(self.clone()));
    }
}

/// A permit to ask a provider; given back when dropped.
#[derive(Debug)]
pub struct BackgroundPermit(Permits);

impl Drop for BackgroundPermit {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_flood_of_one_client_keeps_another_waiting_for_one_of_its_turns() {
        let permits = Permits::new(1);
        let mut held = Some(permits.acquire("flood").await);
        let mut flood: Vec<_> = (0..100).map(|_| Box::pin(permits.acquire("flood"))).collect();
        assert!(flood.iter_mut().all(|waits| waits.now_or_never().is_none()));
        let mut other = Box::pin(permits.acquire("other"));
        assert!((&mut other).now_or_never().is_none());
        assert!(permits.try_acquire().is_none());
        // The first of the flood is next, and the other client before its second.
        held.take();
        let first = flood[0].as_mut().now_or_never();
        assert!(first.is_some() && (&mut other).now_or_never().is_none());
        drop(first);
        let got = other.await;
        assert!(flood[1].as_mut().now_or_never().is_none());
        // Those that leave are passed over, also one that was given a permit and never took it.
        flood.drain(2..);
        drop(got);
        flood.clear();
        assert!(permits.try_acquire().is_some());
    }
}
