//! Outcome of an attempt, retry delays and circuit pauses.

use std::time::Duration;

use agentd_base::{Backoff, Timestamp};
use agentd_net::MAX_RETRY_AFTER;

use super::DeliveryStatus;
use super::config::Action;
use super::hook::Hook;

/// Lease of a claimed delivery. Exceeds the maximum duration of a request.
pub(crate) const DELIVERY_LEASE: Duration = Duration::from_secs(15);
/// Response time above which a receiver is considered slow.
pub(crate) const SLOW_THRESHOLD: Duration = Duration::from_millis(300);
/// Lease of a claimed execution. Renewed while the execution runs.
pub(crate) const EXECUTION_LEASE: Duration = Duration::from_secs(30);
/// Number of consecutive failures that opens a receiver's circuit.
pub(crate) const FAILURES_TO_OPEN: u64 = 10;
/// Maximum pause between probes of an unavailable receiver.
const MAX_CIRCUIT_PAUSE: Duration = Duration::from_secs(5 * 60);
/// Maximum delay between attempts of a hook that is not queued.
const MAX_INLINE_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Error of work that was closed because its hook was deleted.
pub(crate) const HOOK_DELETED: &str = "the hook was deleted";

/// Outcome of a request.
#[derive(Debug, Clone)]
pub(crate) struct SendOutcome {
    pub(crate) status: Option<u16>,
    pub(crate) duration_ms: u64,
    /// `None` if the receiver accepted the event.
    pub(crate) problem: Option<Problem>,
}

impl SendOutcome {
    /// Returns the outcome of a delivery that cannot be sent.
    pub(crate) fn unsendable(problem: &str) -> Self {
        Self { status: None, duration_ms: 0, problem: Some(Problem::new(problem)) }
    }
}

/// Reason a request failed.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) is_timeout: bool,
    pub(crate) retry_after: Option<Duration>,
    /// Reason to disable the hook, if the receiver must not be contacted again.
    pub(crate) disable: Option<&'static str>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_timeout: false, retry_after: None, disable: None }
    }
}

/// State of a delivery after an attempt.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryResult {
    pub(crate) status: DeliveryStatus,
    /// Time of the next attempt.
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) response_status: Option<u16>,
    pub(crate) duration_ms: u64,
    pub(crate) error: Option<String>,
}

impl Hook {
    pub(crate) fn backoff(&self) -> Option<&Backoff> {
        match &self.action {
            Action::Http(http) => Some(&http.backoff),
            _ => None,
        }
    }
}

impl DeliveryResult {
    /// Computes the state of a delivery after attempt number `attempts`. `is_deleted` means that the hook was deleted
    /// during the request, so this attempt is the last. `jitter` is a random number from 0 to 1.
    pub(crate) fn new(
        hook: &Hook,
        sent: &SendOutcome,
        attempts: u32,
        jitter: f64,
        now: Timestamp,
        is_deleted: bool,
    ) -> Self {
        let (response_status, duration_ms) = (sent.status, sent.duration_ms);
        let ended = |status, error| Self { status, due_at: None, response_status, duration_ms, error };
        let Some(problem) = &sent.problem else { return ended(DeliveryStatus::Success, None) };
        if is_deleted {
            return ended(DeliveryStatus::DeadLetter, Some(HOOK_DELETED.to_owned()));
        }
        let error = Some(problem.message.clone());
        let backoff = hook.backoff().filter(|_| problem.disable.is_none() && attempts < hook.max_retries);
        match backoff {
            None => ended(DeliveryStatus::DeadLetter, error),
            Some(backoff) => {
                let delay = delivery_delay(backoff, attempts, jitter, problem.retry_after);
                Self { due_at: Some(now + delay), ..ended(DeliveryStatus::Failed, error) }
            }
        }
    }
}

/// Returns the delay after failed attempt `attempt` of a hook that is not queued: 100 ms × 2^(attempt − 1).
#[must_use]
pub(crate) fn inline_delay(attempt: u32) -> Duration {
    let factor = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
    Duration::from_millis(100).saturating_mul(factor).min(MAX_INLINE_DELAY)
}

/// Returns the delay after failed attempt `attempt` of a delivery: its backoff, or the receiver's `Retry-After` if that
/// is longer. `unit` is a random number from 0 to 1.
fn delivery_delay(backoff: &Backoff, attempt: u32, unit: f64, asked_for: Option<Duration>) -> Duration {
    let asked_for = asked_for.unwrap_or_default().min(MAX_RETRY_AFTER);
    backoff.delay(attempt, unit).max(asked_for)
}

/// Returns the pause of a circuit that opens for the `opening`-th consecutive time (starting at 1). It never exceeds
/// the longest delay of a delivery with `attempts` attempts, so that open circuits do not postpone dead-lettering.
#[must_use]
pub(crate) fn circuit_pause(backoff: &Backoff, attempts: u32, opening: u64, unit: f64) -> Duration {
    let longest_wait = backoff.delay(attempts.saturating_sub(1), 0.5);
    let bounded = Backoff { cap: backoff.cap.min(MAX_CIRCUIT_PAUSE).min(longest_wait), ..*backoff };
    bounded.delay(u32::try_from(opening).unwrap_or(u32::MAX), unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff =
        Backoff { base: Duration::from_secs(10), multiplier: 2.0, cap: Duration::from_secs(3600), jitter: 0.2 };

    #[test]
    fn inline_hook_retries_with_exponential_backoff() {
        let waits: Vec<u128> = [1, 2, 3, 4].map(|attempt| inline_delay(attempt).as_millis()).to_vec();
        assert_eq!(waits, [100, 200, 400, 800]);
        assert_eq!(inline_delay(9), Duration::from_millis(25_600));
        assert_eq!(inline_delay(u32::MAX), MAX_INLINE_DELAY);
    }

    #[test]
    fn retry_after_extends_the_delivery_delay() {
        assert_eq!(delivery_delay(&BACKOFF, 1, 0.5, None), Duration::from_secs(10));
        assert_eq!(delivery_delay(&BACKOFF, 1, 0.5, Some(Duration::from_secs(90))), Duration::from_secs(90));
        assert_eq!(delivery_delay(&BACKOFF, 1, 0.5, Some(Duration::MAX)), MAX_RETRY_AFTER);
    }

    proptest! {
        #[test]
        fn circuit_pauses_are_bounded(attempts in 1_u32..=100, opening in 0_u64..=u64::MAX, unit in 0.0..=1.0_f64) {
            let pause = circuit_pause(&BACKOFF, attempts, opening, unit);
            prop_assert!(pause <= MAX_CIRCUIT_PAUSE.mul_f64(1.2));
            prop_assert!(pause <= BACKOFF.delay(attempts - 1, 1.0));
        }
    }
}
