//! What an alert is made from, and what of it changes.

use agentd_base::{FieldProblem, Patch};
use agentd_web::Validate;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::alerts::model::{AlertChange, AlertSeverity, Delivery};
use crate::alerts::service::Alerts;

fn patch<T>(value: Option<T>) -> Patch<T> {
    value.map_or(Patch::Keep, Patch::Set)
}

/// What an alert is made from.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CreateAlert {
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// A CEL expression that comes to true or false over `error_rate` (share of requests that failed, 0 to 1),
    /// `requests_per_minute`, `latency_p95_ms`, `tokens`, `cost` (US dollars), `queue_pending` (items and deliveries
    /// that wait now), `dead_letters` (given up in the period), `failed_runs`, `cpu_percent`, `memory_percent`,
    /// `disk_percent` (as they are now), `budget_percent` (of the token limit that is nearest to its end),
    /// `model_calls`, `failed_model_calls`, `consecutive_failed_runs` (the most that one job failed since its last
    /// success) and `threshold`. What is not known, such as `error_rate` without requests, neither fires nor resolves.
    #[schema(min_length = 1, max_length = 1_000, example = "error_rate > 0.05")]
    condition: String,
    /// Required where the condition names it; else 0.
    #[serde(default)]
    threshold: Option<f64>,
    /// The figures are those of as many minutes. Default 5.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1_440)]
    period_minutes: Option<u32>,
    /// How long the condition must hold. Default 0.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1_440)]
    for_minutes: Option<u32>,
    /// After how long somebody is told again that it still fires; 0: never. Default 60.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 10_080)]
    notify_every_minutes: Option<u32>,
    /// Whether somebody is told that it is resolved as well. Default false.
    #[serde(default)]
    notify_resolved: Option<bool>,
    /// Default `warning`.
    #[serde(default)]
    severity: Option<AlertSeverity>,
    /// Who is told; left out: nobody, but hooks hear the events.
    #[serde(default)]
    delivery: Option<Delivery>,
    /// Default true.
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
        alerts.checked(self.into()).err().unwrap_or_default()
    }
}

/// As an alert is made. Who is told of it, when and how does not matter here.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct PreviewAlert {
    #[schema(min_length = 1, max_length = 1_000, example = "error_rate > 0.05")]
    condition: String,
    #[serde(default)]
    threshold: Option<f64>,
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
        alerts.checked(self.into()).err().unwrap_or_default()
    }
}

/// Any of the fields; those left out stay as they are, and `null` takes `delivery` away.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct UpdateAlert {
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 200)]
    name: Option<String>,
    #[serde(default)]
    #[schema(value_type = String, min_length = 1, max_length = 1_000)]
    condition: Option<String>,
    #[serde(default)]
    #[schema(value_type = f64)]
    threshold: Option<f64>,
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 1_440)]
    period_minutes: Option<u32>,
    #[serde(default)]
    #[schema(value_type = u32, minimum = 0, maximum = 1_440)]
    for_minutes: Option<u32>,
    #[serde(default)]
    #[schema(value_type = u32, minimum = 0, maximum = 10_080)]
    notify_every_minutes: Option<u32>,
    #[serde(default)]
    #[schema(value_type = bool)]
    notify_resolved: Option<bool>,
    #[serde(default)]
    #[schema(value_type = AlertSeverity)]
    severity: Option<AlertSeverity>,
    #[serde(default)]
    #[schema(value_type = Option<Delivery>)]
    delivery: Patch<Delivery>,
    /// Turning it off ends what fires of it.
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
        // What a change leaves out is there already.
        let mut change = AlertChange::from(self);
        change.name = change.name.or_else(|| Some("there".to_owned()));
        change.condition = change.condition.or_else(|| Some("true".to_owned()));
        change.threshold = change.threshold.or(Some(0.0));
        // Of a url that keeps its credentials, only the change itself can tell.
        change.delivery = Patch::Keep;
        alerts.checked(change).err().unwrap_or_default()
    }
}

/// How long nobody is to be told.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
pub(super) struct SnoozeAlert {
    /// At most a week.
    #[schema(minimum = 1, maximum = 10_080)]
    pub(super) minutes: u32,
}
