//! Permits for turns that nobody waits for: a bounded number of them asks one provider at once, so that a
//! thousand jobs of the same second neither run into its rate limit nor keep a person's chat waiting.
//!
//! A permit belongs to this process. Whoever takes one before it starts a turn holds it until the turn is
//! over or waits for its owner.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::providers::LOCAL;

/// Turns at once that ask one vendor.
const OF_A_VENDOR: usize = 8;
/// The model inside answers one question after the other.
const OF_THE_MODEL_INSIDE: usize = 1;

/// Bounded by the number of providers.
#[derive(Debug, Default)]
pub(super) struct BackgroundPermits(Mutex<HashMap<String, Arc<Semaphore>>>);

impl BackgroundPermits {
    pub(super) fn of(&self, provider: &str) -> Arc<Semaphore> {
        let mut permits = self.0.lock();
        let permits = permits.entry(provider.to_owned()).or_insert_with(|| {
            let count = if provider == LOCAL { OF_THE_MODEL_INSIDE } else { OF_A_VENDOR };
            Arc::new(Semaphore::new(count))
        });
        Arc::clone(permits)
    }
}

/// A permit to ask a provider; given back when dropped.
#[derive(Debug)]
pub struct BackgroundPermit(#[allow(dead_code, reason = "held, not read")] pub(super) OwnedSemaphorePermit);
