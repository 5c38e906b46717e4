//! What is shown of alerts.

use agentd_automation::notify::{NotificationStatus, Target};
use agentd_base::Timestamp;
use agentd_web::{Caller, Scope};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::alerts::model::{AlertId, AlertSeverity, AlertState, Delivery};
use crate::alerts::service::{FiringWithOutcomes, Preview, ShownAlert};

/// A condition over what the daemon does, and where it stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Alert)]
pub(super) struct AlertView {
    id: AlertId,
    name: String,
    condition: String,
    threshold: f64,
    period_minutes: u32,
    for_minutes: u32,
    notify_every_minutes: u32,
    notify_resolved: bool,
    severity: AlertSeverity,
    /// `null`: nobody is told. To a key that may only read, a url shows scheme and host alone: the rest may hold a
    /// token.
    #[schema(required)]
    delivery: Option<Delivery>,
    enabled: bool,
    state: AlertState,
    /// Of the first figure that the condition names, at its last evaluation; `null` while unknown.
    #[schema(required)]
    value: Option<f64>,
    /// When it last began to fire.
    #[schema(required)]
    last_triggered: Option<Timestamp>,
    /// `null` unless it fires.
    #[schema(required)]
    firing_since: Option<Timestamp>,
    #[schema(required)]
    snoozed_until: Option<Timestamp>,
    #[schema(required)]
    acknowledged_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&ShownAlert> for AlertView {
    fn from(shown: &ShownAlert) -> Self {
        let alert = &shown.alert;
        Self {
            id: alert.id.clone(),
            name: alert.name.clone(),
            condition: alert.condition.clone(),
            threshold: alert.threshold,
            period_minutes: alert.period_minutes,
            for_minutes: alert.for_minutes,
            notify_every_minutes: alert.notify_every_minutes,
            notify_resolved: alert.notify_resolved,
            severity: alert.severity,
            delivery: alert.delivery.clone(),
            enabled: alert.enabled,
            state: alert.state(),
            value: shown.value,
            last_triggered: alert.last_triggered,
            firing_since: alert.life.firing_since,
            snoozed_until: alert.life.snoozed_until,
            acknowledged_at: alert.life.acknowledged_at,
            created_at: alert.created_at,
            updated_at: alert.updated_at,
        }
    }
}

impl AlertView {
    /// As the caller may see it: the address of a delivery may hold a token, with which one could write there.
    pub(super) fn shown_to(mut self, caller: &Caller) -> Self {
        if caller.scope == Scope::Read
            && let Some(delivery) = &mut self.delivery
        {
            let shown = delivery.target().map_or_else(|_| "?".to_owned(), |target| shown_url(delivery, &target));
            delivery.url = shown;
        }
        self
    }
}

fn shown_url(delivery: &Delivery, target: &Target) -> String {
    let shown = target.shown();
    match target {
        Target::Channel { .. } | Target::Push(_) => shown,
        Target::Email(_) | Target::Webhook(_) => {
            let prefix = format!("{}:", delivery.kind.as_str());
            shown.strip_prefix(&prefix).unwrap_or(&shown).to_owned()
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AlertList {
    pub(super) alerts: Vec<AlertView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AlertDeleted {
    /// Always true.
    pub(super) deleted: bool,
}

/// What an alert would come to now.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AlertPreview {
    #[schema(required)]
    value: Option<f64>,
    /// `null`: a figure that the condition hangs on is not known.
    #[schema(required)]
    would_fire: Option<bool>,
    /// Every figure of the period; `null` what is not known.
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
}

impl From<Preview> for AlertPreview {
    fn from(preview: Preview) -> Self {
        Self { value: preview.value, would_fire: preview.would_fire, variables: preview.figures.view() }
    }
}

/// What became of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum NoticeStatus {
    /// It is on its way.
    Pending,
    Sent,
    /// It was given up.
    DeadLetter,
    /// It could not even be handed over.
    Failed,
}

/// That somebody was told.
#[derive(Debug, Serialize, ToSchema)]
struct NoticeView {
    at: Timestamp,
    /// Of a url, scheme and host.
    to: String,
    /// `null`: it ended more than 30 days ago.
    #[schema(required)]
    status: Option<NoticeStatus>,
    #[schema(required)]
    error: Option<String>,
}

/// One time that an alert fired.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AlertFiring)]
pub(super) struct FiringView {
    started_at: Timestamp,
    /// `null` while it fires.
    #[schema(required)]
    ended_at: Option<Timestamp>,
    /// The furthest that the value was from the threshold, or the highest where the condition names no threshold.
    #[schema(required)]
    peak_value: Option<f64>,
    #[schema(required)]
    acknowledged_at: Option<Timestamp>,
    notices: Vec<NoticeView>,
}

impl From<FiringWithOutcomes> for FiringView {
    fn from(found: FiringWithOutcomes) -> Self {
        let FiringWithOutcomes { firing, outcomes } = found;
        let notices = firing.notices.into_iter().zip(outcomes).map(|(notice, outcome)| {
            let (status, error) = match (notice.error, outcome) {
                (Some(error), _) => (Some(NoticeStatus::Failed), Some(error)),
                (None, None) => (None, None),
                (None, Some((status, error))) => (Some(status.into()), error),
            };
            NoticeView { at: notice.at, to: notice.to, status, error }
        });
        Self {
            started_at: firing.started_at,
            ended_at: firing.ended_at,
            peak_value: firing.peak_value,
            acknowledged_at: firing.acknowledged_at,
            notices: notices.collect(),
        }
    }
}

impl From<NotificationStatus> for NoticeStatus {
    fn from(status: NotificationStatus) -> Self {
        match status {
            NotificationStatus::Pending => Self::Pending,
            NotificationStatus::Sent => Self::Sent,
            NotificationStatus::DeadLetter => Self::DeadLetter,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AlertHistory {
    pub(super) firings: Vec<FiringView>,
    pub(super) total: u64,
}
