//! When something is next due, as its worker last saw it.

use std::sync::atomic::{AtomicI64, Ordering};

use agentd_base::Timestamp;

/// At first: at once, because nobody has looked yet.
#[derive(Debug, Default)]
pub struct NextDue(AtomicI64);

impl NextDue {
    /// Of nothing.
    pub const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

    /// `None`: nothing is.
    pub fn note(&self, at: Option<Timestamp>) {
        self.0.store(at.unwrap_or(Self::NEVER).as_micros(), Ordering::Relaxed);
    }

    #[must_use]
    pub fn at(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}
