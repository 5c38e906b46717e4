//! State machine of an alert: pure functions of the previous state, the input and the time.
//!
//! | state | on | next | notice |
//! |---|---|---|---|
//! | ok, resolved | the condition has been true for `for_minutes` | firing | yes |
//! | firing | `notify_every_minutes` elapsed and the condition is true | firing | yes |
//! | firing, snoozed | acknowledge | acknowledged | |
//! | firing, acknowledged, snoozed | snooze | snoozed | |
//! | snoozed | the snooze expired | firing | yes |
//! | firing, acknowledged, snoozed | the condition is false; resolve | resolved | if configured |
//! | resolved | the condition is false | ok | |
//!
//! All other actions are rejected. A condition that cannot be evaluated changes nothing, except that a snooze expires.
//! An alert that was resolved manually while its condition is true fires again after the condition was false, or after
//! `notify_every_minutes`.

use std::time::Duration;

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

agentd_base::typed_id!(
    /// Id of a firing of an alert.
    FiringId,
    "fire"
);
agentd_store::stored_ids!(FiringId);

const MINUTE: Duration = Duration::from_secs(60);
/// One week.
const MAX_SNOOZE_MINUTES: u32 = 10_080;

/// State of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// Not firing.
    #[default]
    Ok,
    /// Firing; notices are sent.
    Firing,
    /// Firing, and acknowledged by the owner: no further notices.
    Acknowledged,
    /// Firing, without notices until the snooze expires.
    Snoozed,
    /// No longer firing, until the next evaluation finds the condition false.
    Resolved,
}

impl AlertState {
    pub(crate) const ALL: [Self; 5] = [Self::Ok, Self::Firing, Self::Acknowledged, Self::Snoozed, Self::Resolved];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Firing => "firing",
            Self::Acknowledged => "acknowledged",
            Self::Snoozed => "snoozed",
            Self::Resolved => "resolved",
        }
    }

    /// Returns whether a firing is active.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Firing | Self::Acknowledged | Self::Snoozed)
    }
}

/// Result of evaluating a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    True,
    False,
    /// A value is unknown.
    Unknown,
}

/// Settings of an alert that its state machine depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub for_minutes: u32,
    pub notify_every_minutes: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Lifecycle {
    pub state: AlertState,
    pub pending_since: Option<Timestamp>,
    pub firing_id: Option<FiringId>,
    pub firing_since: Option<Timestamp>,
    pub acknowledged_at: Option<Timestamp>,
    pub snoozed_at: Option<Timestamp>,
    pub snoozed_until: Option<Timestamp>,
    pub noticed_at: Option<Timestamp>,
    /// Number of notices of the current firing.
    pub notices: u32,
    pub held_since: Option<Timestamp>,
}

/// Reason for a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    Started,
    Repeated,
    SnoozeExpired,
    Resolved,
}

/// Result of a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transition {
    pub lifecycle: Lifecycle,
    pub notice: Option<NoticeKind>,
    pub has_started: bool,
    /// Whether the current firing ends.
    pub has_ended: bool,
}

impl Lifecycle {
    fn unchanged(self) -> Transition {
        Transition { lifecycle: self, notice: None, has_started: false, has_ended: false }
    }

    /// Applies an evaluation. `is_watched` tells whether the previous evaluation was recent, so that a condition that
    /// was true then has been true since.
    pub(crate) fn evaluate(
        &self,
        rule: Rule,
        truth: Truth,
        now: Timestamp,
        is_watched: bool,
        new_id: impl FnOnce() -> FiringId,
    ) -> Transition {
        let lifecycle = self.clamp_to(now);
        match (lifecycle.state.is_open(), truth) {
            (false, Truth::True) => lifecycle.start_if_due(rule, now, is_watched, new_id),
            (false, Truth::False) => Self::default().unchanged(),
            (false, Truth::Unknown) => lifecycle.unchanged(),
            (true, Truth::False) => lifecycle.end(),
            (true, Truth::True | Truth::Unknown) => lifecycle.continue_firing(rule, truth, now),
        }
    }

    /// Clamps past times to `now`, in case the clock was set back.
    fn clamp_to(&self, now: Timestamp) -> Self {
        let mut lifecycle = self.clone();
        for past in [&mut lifecycle.pending_since, &mut lifecycle.noticed_at, &mut lifecycle.held_since] {
            *past = past.map(|at| at.min(now));
        }
        if let (Some(at), Some(until)) = (lifecycle.snoozed_at, lifecycle.snoozed_until)
            && at > now
        {
            lifecycle.snoozed_at = Some(now);
            lifecycle.snoozed_until = Some(now + until.since(at));
        }
        lifecycle
    }

    fn start_if_due(
        self,
        rule: Rule,
        now: Timestamp,
        is_watched: bool,
        new_id: impl FnOnce() -> FiringId,
    ) -> Transition {
        if let Some(held) = self.held_since {
            let every = rule.notify_every_minutes;
            if every == 0 || now.since(held) < MINUTE * every {
                return self.unchanged();
            }
        }
        let since = self.pending_since.filter(|_| is_watched).unwrap_or(now);
        if now.since(since) < MINUTE * rule.for_minutes {
            return Self { state: AlertState::Ok, pending_since: Some(since), ..Self::default() }.unchanged();
        }
        let lifecycle = Self {
            state: AlertState::Firing,
            firing_id: Some(new_id()),
            firing_since: Some(now),
            noticed_at: Some(now),
            ..Self::default()
        };
        Transition { notice: Some(NoticeKind::Started), has_started: true, ..lifecycle.unchanged() }
    }

    fn continue_firing(self, rule: Rule, truth: Truth, now: Timestamp) -> Transition {
        let is_over = self.snoozed_until.is_none_or(|until| until <= now);
        if self.state == AlertState::Snoozed && is_over {
            let lifecycle = Self {
                state: AlertState::Firing,
                snoozed_at: None,
                snoozed_until: None,
                noticed_at: Some(now),
                ..self
            };
            return Transition { notice: Some(NoticeKind::SnoozeExpired), ..lifecycle.unchanged() };
        }
        let every = rule.notify_every_minutes;
        let is_due = every > 0 && self.noticed_at.is_none_or(|at| now.since(at) >= MINUTE * every);
        if self.state == AlertState::Firing && truth == Truth::True && is_due {
            let lifecycle = Self { noticed_at: Some(now), ..self };
            return Transition { notice: Some(NoticeKind::Repeated), ..lifecycle.unchanged() };
        }
        self.unchanged()
    }

    fn end(self) -> Transition {
        // A snoozed alert resolves silently.
        let is_quiet = self.state == AlertState::Snoozed;
        let lifecycle = Self { state: AlertState::Resolved, ..Self::default() };
        Transition { notice: (!is_quiet).then_some(NoticeKind::Resolved), has_ended: true, ..lifecycle.unchanged() }
    }

    /// Returns `None` if the state does not allow it.
    pub(crate) fn acknowledge(&self, now: Timestamp) -> Option<Self> {
        matches!(self.state, AlertState::Firing | AlertState::Snoozed).then(|| Self {
            state: AlertState::Acknowledged,
            acknowledged_at: Some(now),
            snoozed_at: None,
            snoozed_until: None,
            ..self.clone()
        })
    }

    /// Returns `None` if the state does not allow it.
    pub(crate) fn snooze(&self, minutes: u32, now: Timestamp) -> Option<Self> {
        self.state.is_open().then(|| Self {
            state: AlertState::Snoozed,
            acknowledged_at: None,
            snoozed_at: Some(now),
            snoozed_until: Some(now + MINUTE * minutes.clamp(1, MAX_SNOOZE_MINUTES)),
            ..self.clone()
        })
    }

    /// Resolves the alert manually; returns `None` if the state does not allow it.
    pub(crate) fn resolve(&self, now: Timestamp) -> Option<Self> {
        self.state.is_open().then(|| Self { held_since: Some(now), ..self.clone().end().lifecycle })
    }
}

#[cfg(test)]
mod tests;
