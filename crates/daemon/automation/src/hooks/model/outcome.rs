//! The outcome of an attempt, when it is repeated, and when a receiver is left alone.

use std::time::Duration;

use agentd_base::{Backoff, Timestamp};
use agentd_net::LONGEST_RETRY_AFTER;

use super::DeliveryStatus;
use super::config::Action;
use super::hook::Hook;

/// A delivery that is claimed is held for so long: more than sending can take.
pub(crate) const DELIVERY_LEASE: Duration = Duration::from_secs(15);
/// A receiver that takes longer to answer is slow.
pub(crate) const QUICK: Duration = Duration::from_millis(300);
/// An execution is held for so long, and longer as long as its daemon lives.
pub(crate) const EXECUTION_LEASE: Duration = Duration::from_secs(30);
/// After so many failures in a row a receiver's circuit opens.
pub(crate) const FAILURES_TO_OPEN: u64 = 10;
/// A receiver that is away is asked at least this often.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// More than anybody waits for.
const LONGEST_INLINE_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Why a delivery ends that its hook did not outlive.
pub(crate) const DELETED: &str = "the hook was deleted";

/// How sending ended.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) status: Option<u16>,
    pub(crate) duration_ms: u64,
    /// `None`: the receiver has it.
    pub(crate) problem: Option<Problem>,
}

impl Sent {
    /// There is nothing that could be sent.
    pub(crate) fn impossible(problem: &str) -> Self {
        Self { status: None, duration_ms: 0, problem: Some(Problem::new(problem)) }
    }
}

/// Why a receiver does not have it.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) is_timeout: bool,
    pub(crate) retry_after: Option<Duration>,
    /// Why nothing is to be sent there any more.
    pub(crate) disable: Option<&'static str>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_timeout: false, retry_after: None, disable: None }
    }
}

/// What an attempt came to.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryResult {
    pub(crate) status: DeliveryStatus,
    /// When it is tried again.
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
    /// What becomes of a delivery of `hook` after its attempt number `attempts`. `is_deleted`: the hook was deleted
    /// while it was sent, so this attempt is the last. `jitter` is random, 0 to 1.
    pub(crate) fn new(hook: &Hook, sent: &Sent, attempts: u32, jitter: f64, now: Timestamp, is_deleted: bool) -> Self {
        let (response_status, duration_ms) = (sent.status, sent.duration_ms);
        let ended = |status, error| Self { status, due_at: None, response_status, duration_ms, error };
        let Some(problem) = &sent.problem else { return ended(DeliveryStatus::Success, None) };
        if is_deleted {
            return ended(DeliveryStatus::DeadLetter, Some(DELETED.to_owned()));
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

/// The wait after failed attempt `attempt` of a hook that is not queued: 100 ms × 2^(attempt − 1).
#[must_use]
pub(crate) fn inline_delay(attempt: u32) -> Duration {
    let factor = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
    Duration::from_millis(100).saturating_mul(factor).min(LONGEST_INLINE_DELAY)
}

/// The wait after failed attempt `attempt` of a delivery: its backoff, or longer where the receiver asked
/// for it. `unit` is random, 0 to 1.
fn delivery_delay(backoff: &Backoff, attempt: u32, unit: f64, asked_for: Option<Duration>) -> Duration {
    let asked_for = asked_for.unwrap_or_default().min(LONGEST_RETRY_AFTER);
    backoff.delay(attempt, unit).max(asked_for)
}

/// How long a circuit stays open for the `opening`-th time in a row (the first is 1): never longer than a delivery of
/// `attempts` would wait itself, so that what fails for good ends in about its own time.
#[must_use]
pub(crate) fn circuit_pause(backoff: &Backoff, attempts: u32, opening: u64, unit: f64) -> Duration {
    let longest_wait = backoff.delay(attempts.saturating_sub(1), 0.5);
    let bounded = Backoff { cap: backoff.cap.min(LONGEST_PAUSE).min(longest_wait), ..*backoff };
    bounded.delay(u32::try_from(opening).unwrap_or(u32::MAX), unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff =
        Backoff { base: Duration::from_secs(10), multiplier: 2.0, cap: Duration::from_secs(3600), jitter: 0.2 };

    #[test]
    fn what_is_not_queued_waits_as_is_said() {
        let waits: Vec<u128> = [1, 2, 3, 4].map(|attempt| inline_delay(attempt).as_millis()).to_vec();
        assert_eq!(waits, [100, 200, 400, 800]);
        assert_eq!(inline_delay(9), Duration::from_millis(25_600));
        assert_eq!(inline_delay(u32::MAX), LONGEST_INLINE_DELAY);
    }

    #[test]
    fn a_receiver_may_ask_for_more_time() {
        assert_eq!(delivery_delay(&BACKOFF, 1, 0.5, None), Duration::from_secs(10));
        assert_eq!(delivery_delay(&BACKOFF, 1, 0.5, Some(Duration::from_secs(90))), Duration::from_secs(90));
        assert_eq!(delivery_delay(&BACKOFF, 1, 0.5, Some(Duration::MAX)), LONGEST_RETRY_AFTER);
    }

    proptest! {
        #[test]
        fn pauses_are_bounded(attempts in 1_u32..=100, opening in 0_u64..=u64::MAX, unit in 0.0..=1.0_f64) {
            let pause = circuit_pause(&BACKOFF, attempts, opening, unit);
            prop_assert!(pause <= LONGEST_PAUSE.mul_f64(1.2));
            prop_assert!(pause <= BACKOFF.delay(attempts - 1, 1.0));
        }
    }
}
