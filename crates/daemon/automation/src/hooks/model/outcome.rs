//! What sending an event came to, and what becomes of its delivery.

use std::time::Duration;

use agentd_base::{Backoff, Timestamp};

use super::config::Action;
use super::retry::delivery_delay;
use super::{DeliveryStatus, Hook};

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
