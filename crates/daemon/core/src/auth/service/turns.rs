//! Turns of login attempts: one at a time for a user from one network, so that guesses sent at once
//! are counted like guesses sent one after another; and a bound on how many wait.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::auth::error::AuthError;
use crate::auth::model::Network;

/// Attempts that are delayed, wait for their turn or are being checked.
const MOST_AT_ONCE: usize = 512;
/// Of these, from one network: a single one must not take every turn.
const MOST_FROM_ONE_NETWORK: usize = 32;

type Attempt = ([u8; 32], Network);

#[derive(Debug, Default)]
struct Waiting {
    total: usize,
    networks: HashMap<Network, usize>,
    attempts: HashMap<Attempt, (usize, Arc<tokio::sync::Mutex<()>>)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Turns(Arc<Mutex<Waiting>>);

/// One of the waiting attempts; no longer counted when dropped.
#[derive(Debug)]
pub(super) struct LoginTurn {
    waiting: Arc<Mutex<Waiting>>,
    attempt: Attempt,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Turns {
    pub(super) fn enter(&self, username_hash: [u8; 32], network: Network) -> Result<LoginTurn, AuthError> {
        let mut waiting = self.0.lock();
        let from_network = waiting.networks.get(&network).copied().unwrap_or(0);
        if waiting.total >= MOST_AT_ONCE || from_network >= MOST_FROM_ONE_NETWORK {
            return Err(AuthError::Busy);
        }
        waiting.total += 1;
        waiting.networks.insert(network, from_network + 1);
        let attempt = (username_hash, network);
        let entry = waiting.attempts.entry(attempt).or_default();
        entry.0 += 1;
        let turn = Arc::clone(&entry.1);
        drop(waiting);
        Ok(LoginTurn { waiting: Arc::clone(&self.0), attempt, turn })
    }
}

impl LoginTurn {
    /// Waits until no other attempt of this user from this network is under way.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}

impl Drop for LoginTurn {
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
        Network::of(Some([192, 0, 2, last].into()))
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let turns = Turns::default();
        let mut places: Vec<LoginTurn> = (0..MOST_FROM_ONE_NETWORK)
            .map(|user| turns.enter([u8::try_from(user).unwrap(); 32], network(1)).unwrap())
            .collect();
        assert!(matches!(turns.enter([99; 32], network(1)), Err(AuthError::Busy)));
        assert!(turns.enter([99; 32], network(2)).is_ok());
        for last in 2.. {
            let entered: Vec<LoginTurn> =
                (0..MOST_FROM_ONE_NETWORK).map_while(|_| turns.enter([7; 32], network(last)).ok()).collect();
            places.extend(entered);
            if places.len() >= MOST_AT_ONCE {
                break;
            }
        }
        assert_eq!(places.len(), MOST_AT_ONCE);
        assert!(matches!(turns.enter([99; 32], network(200)), Err(AuthError::Busy)));
        drop(places);
        let waiting = turns.0.lock();
        assert_eq!(waiting.total, 0);
        assert!(waiting.networks.is_empty() && waiting.attempts.is_empty());
    }

    #[tokio::test]
    async fn one_attempt_at_a_time_for_a_user_from_a_network() {
        let turns = Turns::default();
        let (first, second) = (turns.enter([1; 32], network(1)).unwrap(), turns.enter([1; 32], network(1)).unwrap());
        let elsewhere = turns.enter([1; 32], network(2)).unwrap();
        let held = first.turn().await;
        let _free = elsewhere.turn().await;
        assert!(second.turn.try_lock().is_err());
        drop(held);
        assert!(second.turn.try_lock().is_ok());
    }
}
