//! Events of alerts.

use agentd_base::Timestamp;
use agentd_store::NewEvent;
use serde_json::{Value, json};

use super::model::Alert;

/// Reason why a firing ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum EndedBy {
    Condition,
    Owner,
    Disabled,
    Deleted,
}

impl EndedBy {
    fn as_str(self) -> &'static str {
        match self {
            Self::Condition => "condition",
            Self::Owner => "hand",
            Self::Disabled => "turned_off",
            Self::Deleted => "deleted",
        }
    }
}

/// Returns the event data; `alert` is its state while it fired.
fn data(alert: &Alert, value: Option<f64>) -> Value {
    json!({
        "alert_id": alert.id,
        "name": alert.name,
        "severity": alert.severity,
        "condition": alert.condition,
        "threshold": alert.threshold,
        "period_minutes": alert.period_minutes,
        "value": value,
        "firing_since": alert.lifecycle.firing_since,
    })
}

pub(super) fn firing(alert: &Alert, value: Option<f64>) -> NewEvent {
    NewEvent::new("alert.firing", data(alert, value))
}

pub(super) fn acknowledged(alert: &Alert, value: Option<f64>) -> NewEvent {
    NewEvent::new("alert.acknowledged", data(alert, value))
}

pub(super) fn snoozed(alert: &Alert, value: Option<f64>, until: Option<Timestamp>) -> NewEvent {
    let mut data = data(alert, value);
    data["snoozed_until"] = json!(until);
    NewEvent::new("alert.snoozed", data)
}

pub(super) fn resolved(alert: &Alert, value: Option<f64>, by: EndedBy) -> NewEvent {
    let mut data = data(alert, value);
    data["resolved_by"] = json!(by.as_str());
    NewEvent::new("alert.resolved", data)
}
