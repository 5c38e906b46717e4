//! When something is next due, as its worker last saw it.

use std::sync::atomic::{AtomicI64, Ordering};

use agentd_base::Timestamp;

/// At first: at once, because nobody has looked yet.
#[derive(Debug, Default)]
pub struct NextDue(AtomicI64);

impl NextDue {
    /// `None`: nothing is.
    pub fn note(&self, at: Option<Timestamp>) {
        self.0.store(at.map_or(i64::MAX, Timestamp::as_micros), Ordering::Relaxed);
    }

    #[must_use]
    pub fn at(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}
