//! Queue of login attempts. Attempts for one user from one network run one at a time, so that concurrent guesses are
//! counted like sequential ones. The number of waiting attempts is limited.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::auth::error::AuthError;
use crate::auth::model::Network;

/// Maximum number of attempts that are delayed, waiting or being checked.
const MAX_ATTEMPTS: usize = 512;
/// Maximum number of attempts from one network, so that one network cannot use up all slots.
const MAX_ATTEMPTS_PER_NETWORK: usize = 32;

type Attempt = ([u8; 32], Network);

#[derive(Debug, Default)]
struct Waiting {
    total: usize,
    networks: HashMap<Network, usize>,
    attempts: HashMap<Attempt, (usize, Arc<tokio::sync::Mutex<()>>)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct LoginQueue(Arc<Mutex<Waiting>>);

/// Slot of an attempt in the queue, released on drop.
#[derive(Debug)]
pub(super) struct LoginSlot {
    waiting: Arc<Mutex<Waiting>>,
    attempt: Attempt,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl LoginQueue {
    pub(super) fn enter(&self, username_hash: [u8; 32], network: Network) -> Result<LoginSlot, AuthError> {
        let mut waiting = self.0.lock();
        let from_network = waiting.networks.get(&network).copied().unwrap_or(0);
        if waiting.total >= MAX_ATTEMPTS || from_network >= MAX_ATTEMPTS_PER_NETWORK {
            return Err(AuthError::Busy);
        }
        waiting.total += 1;
        waiting.networks.insert(network, from_network + 1);
        let attempt = (username_hash, network);
        let entry = waiting.attempts.entry(attempt).or_default();
        entry.0 += 1;
        let lock = Arc::clone(&entry.1);
        drop(waiting);
        Ok(LoginSlot { waiting: Arc::clone(&self.0), attempt, lock })
    }
}

impl LoginSlot {
    /// Waits until no other attempt of this user from this network is running.
    pub(super) async fn acquire(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.lock.lock().await
    }
}

impl Drop for LoginSlot {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        waiting.total -= 1;
        if let Some(count) = waiting.networks.get_mut(&self.attempt.1) {
            *count -= 1;
            if *count == 0 {
                waiting.networks.remove(&self.attempt.1);
            }
        }
        if let Some((count, _)) = waiting.attempts.get_mut(&self.attempt) {
            *count -= 1;
            if *count == 0 {
                waiting.attempts.remove(&self.attempt);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> Network {
        Network::from_address(Some([192, 0, 2, last].into()))
    }

    #[test]
    fn slots_are_limited_and_released_on_drop() {
        let queue = LoginQueue::default();
        let mut slots: Vec<LoginSlot> = (0..MAX_ATTEMPTS_PER_NETWORK)
            .map(|user| queue.enter([u8::try_from(user).unwrap(); 32], network(1)).unwrap())
            .collect();
        assert!(matches!(queue.enter([99; 32], network(1)), Err(AuthError::Busy)));
        assert!(queue.enter([99; 32], network(2)).is_ok());
        for last in 2.. {
            let entered: Vec<LoginSlot> =
                (0..MAX_ATTEMPTS_PER_NETWORK).map_while(|_| queue.enter([7; 32], network(last)).ok()).collect();
            slots.extend(entered);
            if slots.len() >= MAX_ATTEMPTS {
                break;
            }
        }
        assert_eq!(slots.len(), MAX_ATTEMPTS);
        assert!(matches!(queue.enter([99; 32], network(200)), Err(AuthError::Busy)));
        drop(slots);
        let waiting = queue.0.lock();
        assert_eq!(waiting.total, 0);
        assert!(waiting.networks.is_empty() && waiting.attempts.is_empty());
    }

    #[tokio::test]
    async fn attempts_of_one_user_from_one_network_run_one_at_a_time() {
        let queue = LoginQueue::default();
        let (first, second) = (queue.enter([1; 32], network(1)).unwrap(), queue.enter([1; 32], network(1)).unwrap());
        let elsewhere = queue.enter([1; 32], network(2)).unwrap();
        let held = first.acquire().await;
        let _free = elsewhere.acquire().await;
        assert!(second.lock.try_lock().is_err());
        drop(held);
        assert!(second.lock.try_lock().is_ok());
    }
}
