//! API representations of alerts.

use agentd_automation::notify::{NotificationStatus, Target};
use agentd_base::Timestamp;
use agentd_web::{Caller, Scope};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::alerts::model::{AlertId, AlertSeverity, AlertState, Delivery};
use crate::alerts::service::{AlertWithValue, FiringWithOutcomes, Preview};

/// Alert with its settings and its state.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Alert)]
pub(super) struct AlertView {
    id: AlertId,
    /// Display name, 1 to 200 characters.
    name: String,
    /// CEL expression that must be true for the alert to fire; see `POST /api/monitoring/alerts` for its variables.
    condition: String,
    /// Value of the variable `threshold` in the condition.
    threshold: f64,
    /// Length of the evaluated period in minutes, 1 to 1,440.
    period_minutes: u32,
    /// Minutes for which the condition must be true before the alert fires, 0 to 1,440.
    for_minutes: u32,
    /// Interval between repeated notices in minutes, 0 to 10,080. 0 disables repeats.
    notify_every_minutes: u32,
    /// Whether a notice is sent when the alert resolves.
    notify_resolved: bool,
    severity: AlertSeverity,
    /// Destination of notices; `null` if there is none. For read-only keys a URL is reduced to scheme and host, because
    /// the rest may contain a token.
    #[schema(required)]
    delivery: Option<Delivery>,
    /// Whether the alert is evaluated.
    enabled: bool,
    state: AlertState,
    /// Value of the first variable of the condition at the last evaluation; `null` if unknown or if the alert is
    /// disabled.
    #[schema(required)]
    value: Option<f64>,
    /// Time when the alert last started firing; `null` if it never fired.
    #[schema(required)]
    last_triggered: Option<Timestamp>,
    /// Start of the current firing; `null` if the alert is not firing.
    #[schema(required)]
    firing_since: Option<Timestamp>,
    /// End of the snooze; `null` unless `state` is `snoozed`.
    #[schema(required)]
    snoozed_until: Option<Timestamp>,
    /// Time of the acknowledgement; `null` unless `state` is `acknowledged`.
    #[schema(required)]
    acknowledged_at: Option<Timestamp>,
    created_at: Timestamp,
    /// Time of the last change of the settings.
    updated_at: Timestamp,
}

impl From<&AlertWithValue> for AlertView {
    fn from(shown: &AlertWithValue) -> Self {
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
            firing_since: alert.lifecycle.firing_since,
            snoozed_until: alert.lifecycle.snoozed_until,
            acknowledged_at: alert.lifecycle.acknowledged_at,
            created_at: alert.created_at,
            updated_at: alert.updated_at,
        }
    }
}

impl AlertView {
    /// Reduces the delivery to what the caller may see: its URL may contain a token that permits sending there.
    pub(super) fn redacted_for(mut self, caller: &Caller) -> Self {
        if caller.scope == Scope::Read
            && let Some(delivery) = &mut self.delivery
        {
            let shown = delivery.target().map_or_else(|_| "?".to_owned(), |target| redacted_url(delivery, &target));
            delivery.url = shown;
        }
        self
    }
}

fn redacted_url(delivery: &Delivery, target: &Target) -> String {
    let shown = target.redacted();
    match target {
        Target::Channel { .. } | Target::Push(_) => shown,
        Target::Email(_) | Target::Webhook(_) => {
            let prefix = format!("{}:", delivery.kind.as_str());
            shown.strip_prefix(&prefix).unwrap_or(&shown).to_owned()
        }
    }
}

/// All alerts.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AlertList {
    /// Alerts in order of creation.
    pub(super) alerts: Vec<AlertView>,
}

/// Confirmation that an alert was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AlertDeleted {
    /// Always true.
    pub(super) deleted: bool,
}

/// Result of evaluating an alert now.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AlertPreview {
    /// Value of the first variable of the condition; `null` if unknown.
    #[schema(required)]
    value: Option<f64>,
    /// Whether the condition is true; `null` if a required value is unknown.
    #[schema(required)]
    would_fire: Option<bool>,
    /// Values of all variables by name, `null` if unknown.
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
}

impl From<Preview> for AlertPreview {
    fn from(preview: Preview) -> Self {
        Self { value: preview.value, would_fire: preview.would_fire, variables: preview.figures.view() }
    }
}

/// Delivery status of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum NoticeStatus {
    /// Waiting to be sent.
    Pending,
    /// Accepted by the destination.
    Sent,
    /// Abandoned after all attempts failed.
    DeadLetter,
    /// Could not be enqueued.
    Failed,
}

/// Notice of a firing.
#[derive(Debug, Serialize, ToSchema)]
struct NoticeView {
    /// Time when the notice was enqueued.
    at: Timestamp,
    /// Destination; a URL is reduced to scheme and host.
    to: String,
    /// Delivery status; `null` if delivery ended more than 30 days ago.
    #[schema(required)]
    status: Option<NoticeStatus>,
    /// Reason why the notice was not delivered; `null` if no attempt failed.
    #[schema(required)]
    error: Option<String>,
}

/// One firing of an alert.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AlertFiring)]
pub(super) struct FiringView {
    started_at: Timestamp,
    /// End of the firing; `null` while it fires.
    #[schema(required)]
    ended_at: Option<Timestamp>,
    /// Value farthest from the threshold, or the highest if the condition does not use the threshold; `null` if
    /// unknown.
    #[schema(required)]
    peak_value: Option<f64>,
    /// Time of the first acknowledgement; `null` if it was not acknowledged.
    #[schema(required)]
    acknowledged_at: Option<Timestamp>,
    /// Latest notices in order of sending, at most 100.
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

/// Page of firings of an alert.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AlertHistory {
    /// Firings, newest first.
    pub(super) firings: Vec<FiringView>,
    /// Number of all firings of the alert.
    pub(super) total: u64,
}
