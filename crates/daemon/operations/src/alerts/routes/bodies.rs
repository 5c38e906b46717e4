//! Request bodies of alerts.

use agentd_base::{FieldProblem, Patch};
use agentd_web::Validate;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::alerts::model::{AlertChange, AlertSeverity, Delivery};
use crate::alerts::service::Alerts;

fn patch<T>(value: Option<T>) -> Patch<T> {
    value.map_or(Patch::Keep, Patch::Set)
}

/// Fields of a new alert.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CreateAlert {
    /// Display name, 1 to 200 characters without control characters. Need not be unique.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// CEL expression that evaluates to a boolean. Variables: `error_rate` (share of failed requests, 0 to 1),
    /// `requests_per_minute`, `latency_p95_ms`, `tokens`, `cost` (US dollars), `queue_pending` (items and deliveries
    /// waiting now), `dead_letters` (dead-lettered in the period), `failed_runs`, `cpu_percent`, `memory_percent`,
    /// `disk_percent` (current values), `budget_percent` (of the token limit closest to exhaustion), `model_calls`,
    /// `failed_model_calls`, `consecutive_failed_runs` (highest count of any job since its last success) and
    /// `threshold`. An unknown value, such as `error_rate` without requests, neither fires nor resolves the alert.
    #[schema(min_length = 1, max_length = 1_000, example = "error_rate > 0.05")]
    condition: String,
    /// Value of the variable `threshold`. Required if the condition uses it, otherwise 0 by default.
    #[serde(default)]
    threshold: Option<f64>,
    /// Length of the evaluated period in minutes, 1 to 1,440. Default: 5.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_440)]
    period_minutes: Option<u32>,
    /// Minutes for which the condition must be true before the alert fires, 0 to 1,440. Default: 0.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_440)]
    for_minutes: Option<u32>,
    /// Interval between repeated notices in minutes, 0 to 10,080; 0 disables repeats. Default: 60.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 10_080)]
    notify_every_minutes: Option<u32>,
    /// Whether to send a notice when the alert resolves. Default: false.
    #[serde(default)]
    notify_resolved: Option<bool>,
    /// Severity. Default: `warning`.
    #[serde(default)]
    severity: Option<AlertSeverity>,
    /// Destination of notices. Without one, no notices are sent; hooks receive the events in any case.
    #[serde(default)]
    delivery: Option<Delivery>,
    /// Whether the alert is evaluated. Default: true.
    #[serde(default)]
    enabled: Option<bool>,
}

impl From<CreateAlert> for AlertChange {
    fn from(body: CreateAlert) -> Self {
        Self {
            name: Some(body.name),
            condition: Some(body.condition),
            threshold: body.threshold,
            period_minutes: body.period_minutes,
            for_minutes: body.for_minutes,
            notify_every_minutes: body.notify_every_minutes,
            notify_resolved: body.notify_resolved,
            severity: body.severity,
            delivery: patch(body.delivery),
            enabled: body.enabled,
        }
    }
}

impl Validate<Alerts> for CreateAlert {
    async fn validate(self, alerts: &Alerts) -> Vec<FieldProblem> {
        alerts.build_alert(self.into()).err().unwrap_or_default()
    }
}

/// Condition to evaluate, with the same fields as an alert. Delivery settings have no effect.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct PreviewAlert {
    /// CEL expression that evaluates to a boolean, as in `POST /api/monitoring/alerts`, 1 to 1,000 characters.
    #[schema(min_length = 1, max_length = 1_000, example = "error_rate > 0.05")]
    condition: String,
    /// Value of the variable `threshold`. Required if the condition uses it, otherwise 0 by default.
    #[serde(default)]
    threshold: Option<f64>,
    /// Length of the evaluated period in minutes, 1 to 1,440. Default: 5.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_440)]
    period_minutes: Option<u32>,
}

impl From<PreviewAlert> for AlertChange {
    fn from(body: PreviewAlert) -> Self {
        Self {
            name: Some("preview".to_owned()),
            condition: Some(body.condition),
            threshold: body.threshold,
            period_minutes: body.period_minutes,
            ..Self::default()
        }
    }
}

impl Validate<Alerts> for PreviewAlert {
    async fn validate(self, alerts: &Alerts) -> Vec<FieldProblem> {
        alerts.build_alert(self.into()).err().unwrap_or_default()
    }
}

/// Changed fields; omitted fields keep their values, and `null` removes `delivery`.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct UpdateAlert {
    /// Display name, 1 to 200 characters without control characters.
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    name: Option<String>,
    /// CEL expression that evaluates to a boolean, as in `POST /api/monitoring/alerts`, 1 to 1,000 characters.
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 1_000)]
    condition: Option<String>,
    /// Value of the variable `threshold` in the condition.
    #[serde(default)]
    #[schema(value_type = f64)]
    threshold: Option<f64>,
    /// Length of the evaluated period in minutes, 1 to 1,440.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 1_440)]
    period_minutes: Option<u32>,
    /// Minutes for which the condition must be true before the alert fires, 0 to 1,440.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 0, maximum = 1_440)]
    for_minutes: Option<u32>,
    /// Interval between repeated notices in minutes, 0 to 10,080; 0 disables repeats.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 0, maximum = 10_080)]
    notify_every_minutes: Option<u32>,
    /// Whether to send a notice when the alert resolves.
    #[serde(default)]
    #[schema(value_type = bool)]
    notify_resolved: Option<bool>,
    /// Severity, used for display and push notifications.
    #[serde(default)]
    #[schema(value_type = AlertSeverity)]
    severity: Option<AlertSeverity>,
    /// Destination of notices; `null` removes it.
    #[serde(default)]
    #[schema(value_type = Option<Delivery>)]
    delivery: Patch<Delivery>,
    /// Whether the alert is evaluated. Disabling it ends an active firing.
    #[serde(default)]
    #[schema(value_type = bool)]
    enabled: Option<bool>,
}

impl From<UpdateAlert> for AlertChange {
    fn from(body: UpdateAlert) -> Self {
        Self {
            name: body.name,
            condition: body.condition,
            threshold: body.threshold,
            period_minutes: body.period_minutes,
            for_minutes: body.for_minutes,
            notify_every_minutes: body.notify_every_minutes,
            notify_resolved: body.notify_resolved,
            severity: body.severity,
            delivery: body.delivery,
            enabled: body.enabled,
        }
    }
}

impl Validate<Alerts> for UpdateAlert {
    async fn validate(self, alerts: &Alerts) -> Vec<FieldProblem> {
        // Fields that are omitted exist already.
        let mut change = AlertChange::from(self);
        change.name = change.name.or_else(|| Some("there".to_owned()));
        change.condition = change.condition.or_else(|| Some("true".to_owned()));
        change.threshold = change.threshold.or(Some(0.0));
        // Masked credentials can only be checked against the stored URL.
        change.delivery = Patch::Keep;
        alerts.build_alert(change).err().unwrap_or_default()
    }
}

/// Duration of a snooze.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
pub(super) struct SnoozeAlert {
    /// Duration of the snooze in minutes, 1 to 10,080 (one week).
    #[schema(minimum = 1, maximum = 10_080)]
    pub(super) minutes: u32,
}
