//! Outcomes of inbound messages.

use std::sync::atomic::{AtomicU64, Ordering};

/// Outcome of an inbound message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Accepted,
    Repeated,
    /// The signature is missing, wrong or too old.
    Unsigned,
    Disabled,
    RateLimited,
    Overloaded,
    /// The recipient does not exist, the message cannot be decoded, or its id was used with another body.
    Invalid,
    /// The daemon could not store it.
    Failed,
}

const OUTCOMES: [(Outcome, &str); 8] = [
    (Outcome::Accepted, "accepted"),
    (Outcome::Repeated, "repeated"),
    (Outcome::Unsigned, "unsigned"),
    (Outcome::Disabled, "disabled"),
    (Outcome::RateLimited, "rate_limited"),
    (Outcome::Overloaded, "overloaded"),
    (Outcome::Invalid, "invalid"),
    (Outcome::Failed, "failed"),
];

/// Counters of outcomes since the daemon started.
#[derive(Debug, Default)]
pub struct OutcomeCounts([AtomicU64; OUTCOMES.len()]);

impl OutcomeCounts {
    pub fn count(&self, outcome: Outcome) {
        if let Some(count) = OUTCOMES.iter().position(|(known, _)| *known == outcome).and_then(|at| self.0.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts by the name of the outcome.
    #[must_use]
    pub fn read(&self) -> Vec<(&'static str, u64)> {
        OUTCOMES.iter().zip(&self.0).map(|((_, name), count)| (*name, count.load(Ordering::Relaxed))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_counter() {
        let counts = OutcomeCounts::default();
        for (outcome, _) in OUTCOMES {
            counts.count(outcome);
        }
        assert!(counts.read().iter().all(|(_, count)| *count == 1));
    }
}
