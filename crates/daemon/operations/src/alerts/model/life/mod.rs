//! Where an alert stands, as functions of where it stood, what came in, and the time.
//!
//! | state | on | next | notice |
//! |---|---|---|---|
//! | ok, resolved | the condition has held for `for_minutes` | firing | yes |
//! | firing | `notify_every_minutes` are over, and the condition holds | firing | yes |
//! | firing, snoozed | acknowledge | acknowledged | |
//! | firing, acknowledged, snoozed | snooze | snoozed | |
//! | snoozed | the snooze is over | firing | yes |
//! | firing, acknowledged, snoozed | the condition does not hold; resolve | resolved | if it is wanted |
//! | resolved | the condition does not hold | ok | |
//!
//! Any other action is refused. A condition that cannot be evaluated changes nothing but that a snooze ends. One that
//! still holds after somebody resolved the alert fires again when it was false in between, or after
//! `notify_every_minutes`.

use std::time::Duration;

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

agentd_base::typed_id!(
    /// The id of one time that an alert fired.
    FiringId,
    "fire"
);
agentd_store::stored_ids!(FiringId);

const MINUTE: Duration = Duration::from_secs(60);
/// A week.
const LONGEST_SNOOZE_MINUTES: u32 = 10_080;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    #[default]
    Ok,
    Firing,
    /// It still fires, and somebody takes care of it: nobody is told again.
    Acknowledged,
    /// It still fires, and nobody is told until the snooze is over.
    Snoozed,
    /// It just ceased to fire.
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

    /// Whether what it is about still goes on, as far as is known.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Firing | Self::Acknowledged | Self::Snoozed)
    }
}

/// What a condition came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    True,
    False,
    /// A figure is missing.
    Unknown,
}

/// What of an alert its life goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub for_minutes: u32,
    pub notify_every_minutes: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Life {
    pub state: AlertState,
    pub pending_since: Option<Timestamp>,
    pub firing_id: Option<FiringId>,
    pub firing_since: Option<Timestamp>,
    pub acknowledged_at: Option<Timestamp>,
    pub snoozed_at: Option<Timestamp>,
    pub snoozed_until: Option<Timestamp>,
    pub noticed_at: Option<Timestamp>,
    /// Of the present firing.
    pub notices: u32,
    pub held_since: Option<Timestamp>,
}

/// Why somebody is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    Begun,
    Repeated,
    SnoozeOver,
    Resolved,
}

/// What comes of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub life: Life,
    pub notice: Option<NoticeKind>,
    pub has_begun: bool,
    /// Ends the firing that the alert had.
    pub has_ended: bool,
}

impl Life {
    fn step(self) -> Step {
        Step { life: self, notice: None, has_begun: false, has_ended: false }
    }

    /// What an evaluation leads to. `is_watched`: somebody evaluated shortly before, so that what held then has held
    /// since.
    pub(crate) fn evaluate(
        &self,
        rule: Rule,
        truth: Truth,
        now: Timestamp,
        is_watched: bool,
        new_id: impl FnOnce() -> FiringId,
    ) -> Step {
        let life = self.with_clock(now);
        match (life.state.is_open(), truth) {
            (false, Truth::True) => life.holds(rule, now, is_watched, new_id),
            (false, Truth::False) => Self::default().step(),
            (false, Truth::Unknown) => life.step(),
            (true, Truth::False) => life.ended(),
            (true, Truth::True | Truth::Unknown) => life.goes_on(rule, truth, now),
        }
    }

    /// The same where the clock was set back: nothing that has happened lies ahead.
    fn with_clock(&self, now: Timestamp) -> Self {
        let mut life = self.clone();
        for past in [&mut life.pending_since, &mut life.noticed_at, &mut life.held_since] {
            *past = past.map(|at| at.min(now));
        }
        if let (Some(at), Some(until)) = (life.snoozed_at, life.snoozed_until)
            && at > now
        {
            life.snoozed_at = Some(now);
            life.snoozed_until = Some(now + until.since(at));
        }
        life
    }

    fn holds(self, rule: Rule, now: Timestamp, is_watched: bool, new_id: impl FnOnce() -> FiringId) -> Step {
        if let Some(held) = self.held_since {
            let every = rule.notify_every_minutes;
            if every == 0 || now.since(held) < MINUTE * every {
                return self.step();
            }
        }
        let since = self.pending_since.filter(|_| is_watched).unwrap_or(now);
        if now.since(since) < MINUTE * rule.for_minutes {
            return Self { state: AlertState::Ok, pending_since: Some(since), ..Self::default() }.step();
        }
        let life = Self {
            state: AlertState::Firing,
            firing_id: Some(new_id()),
            firing_since: Some(now),
            noticed_at: Some(now),
            ..Self::default()
        };
        Step { notice: Some(NoticeKind::Begun), has_begun: true, ..life.step() }
    }

    fn goes_on(self, rule: Rule, truth: Truth, now: Timestamp) -> Step {
        let is_over = self.snoozed_until.is_none_or(|until| until <= now);
        if self.state == AlertState::Snoozed && is_over {
            let life = Self {
                state: AlertState::Firing,
                snoozed_at: None,
                snoozed_until: None,
                noticed_at: Some(now),
                ..self
            };
            return Step { notice: Some(NoticeKind::SnoozeOver), ..life.step() };
        }
        let every = rule.notify_every_minutes;
        let is_due = every > 0 && self.noticed_at.is_none_or(|at| now.since(at) >= MINUTE * every);
        if self.state == AlertState::Firing && truth == Truth::True && is_due {
            let life = Self { noticed_at: Some(now), ..self };
            return Step { notice: Some(NoticeKind::Repeated), ..life.step() };
        }
        self.step()
    }

    fn ended(self) -> Step {
        // Nobody who was not to be disturbed is.
        let is_quiet = self.state == AlertState::Snoozed;
        let life = Self { state: AlertState::Resolved, ..Self::default() };
        Step { notice: (!is_quiet).then_some(NoticeKind::Resolved), has_ended: true, ..life.step() }
    }

    /// `None`: its state does not allow it.
    pub(crate) fn acknowledge(&self, now: Timestamp) -> Option<Self> {
        matches!(self.state, AlertState::Firing | AlertState::Snoozed).then(|| Self {
            state: AlertState::Acknowledged,
            acknowledged_at: Some(now),
            snoozed_at: None,
            snoozed_until: None,
            ..self.clone()
        })
    }

    /// `None`: its state does not allow it.
    pub(crate) fn snooze(&self, minutes: u32, now: Timestamp) -> Option<Self> {
        self.state.is_open().then(|| Self {
            state: AlertState::Snoozed,
            acknowledged_at: None,
            snoozed_at: Some(now),
            snoozed_until: Some(now + MINUTE * minutes.clamp(1, LONGEST_SNOOZE_MINUTES)),
            ..self.clone()
        })
    }

    /// By hand. `None`: its state does not allow it.
    pub(crate) fn resolve(&self, now: Timestamp) -> Option<Self> {
        self.state.is_open().then(|| Self { held_since: Some(now), ..self.clone().ended().life })
    }
}

#[cfg(test)]
mod tests;
