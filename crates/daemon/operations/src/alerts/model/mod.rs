//! Alerts as values, and their validation.

mod condition;
mod lifecycle;

use std::fmt;

use agentd_automation::notify::Target;
use agentd_base::{Patch, Problems, Timestamp};
use agentd_core::vault::{SealedUrl, UnknownMask, UrlSecrets};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(super) use condition::{CompiledCondition, Figure, Figures};
pub use lifecycle::{AlertState, FiringId};
pub(super) use lifecycle::{Lifecycle, NoticeKind, Rule, Truth};

agentd_base::typed_id!(
    /// Id of an alert.
    AlertId,
    "alert"
);
agentd_store::stored_ids!(AlertId);

pub(super) const MAX_ALERTS: u64 = 2_000;
const MAX_NAME_CHARACTERS: usize = 200;
const MAX_PERIOD_MINUTES: u32 = 1_440;
const MAX_FOR_MINUTES: u32 = 1_440;
/// One week.
const MAX_NOTIFY_EVERY_MINUTES: u32 = 10_080;
const DEFAULT_PERIOD_MINUTES: u32 = 5;
const DEFAULT_NOTIFY_EVERY_MINUTES: u32 = 60;

/// Severity of an alert. Push notifications of `critical` alerts are urgent and never silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertSeverity {
    Info,
    #[default]
    Warning,
    Critical,
}

impl AlertSeverity {
    pub(super) const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Channel through which notices are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertDeliveryType {
    /// `url` is an http(s) URL; notices are sent as a JSON object with POST.
    Webhook,
    /// `url` is an email address; empty for the address in the profile.
    Email,
    /// `url` is `<platform>:<channel>`, or `push:` for registered devices.
    Channel,
}

impl AlertDeliveryType {
    pub(super) const ALL: [Self; 3] = [Self::Webhook, Self::Email, Self::Channel];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Email => "email",
            Self::Channel => "channel",
        }
    }
}

/// Destination of notices.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AlertDelivery)]
pub struct Delivery {
    /// Channel through which notices are sent.
    #[serde(rename = "type")]
    pub kind: AlertDeliveryType,
    /// Destination in the format given by `type`, at most 2,048 characters. Credentials in a URL are encrypted and
    /// returned as `***`; sending `***` back keeps them.
    #[schema(max_length = 2_048, example = "https://example.org/alerts")]
    pub url: String,
}

/// Omits the URL, which may contain a token.
impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Delivery {
    /// Returns the target of `notify` with `url` instead of the stored one.
    pub(super) fn target_with(&self, url: &str) -> Result<Target, String> {
        let text = match self.kind {
            AlertDeliveryType::Webhook => format!("{}:{url}", Target::WEBHOOK),
            AlertDeliveryType::Email => {
                format!("{}:{}", Target::EMAIL, url.strip_prefix("mailto:").unwrap_or(url))
            }
            AlertDeliveryType::Channel => url.to_owned(),
        };
        let wanted = match self.kind {
            AlertDeliveryType::Webhook => "must be an http(s) url",
            AlertDeliveryType::Email => {
                "must be an address such as name@example.org, or empty to use the address in the profile"
            }
            AlertDeliveryType::Channel => "must be <platform>:<channel>, such as slack:#alerts, or push:",
        };
        let target = text.parse::<Target>().map_err(|_| wanted.to_owned())?;
        match (&target, self.kind) {
            (Target::Channel { .. } | Target::Push(_), AlertDeliveryType::Channel) => {
                target.fault().map_or(Ok(target), Err)
            }
            (_, AlertDeliveryType::Channel) => Err(wanted.to_owned()),
            _ => Ok(target),
        }
    }

    pub(super) fn target(&self) -> Result<Target, String> {
        self.target_with(&self.url)
    }
}

/// Alert with its settings and its state.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    pub id: AlertId,
    pub name: String,
    pub condition: String,
    pub threshold: f64,
    pub period_minutes: u32,
    pub for_minutes: u32,
    pub notify_every_minutes: u32,
    pub notify_resolved: bool,
    pub severity: AlertSeverity,
    pub delivery: Option<Delivery>,
    pub enabled: bool,
    pub(super) lifecycle: Lifecycle,
    /// Value farthest from the threshold in the current firing.
    pub(super) peak_value: Option<f64>,
    /// Time when it last started firing.
    pub last_triggered: Option<Timestamp>,
    pub created_at: Timestamp,
    /// Time of the last change of its settings.
    pub updated_at: Timestamp,
}

/// Changes to an alert's settings.
#[derive(Debug, Clone, Default)]
pub struct AlertChange {
    pub name: Option<String>,
    pub condition: Option<String>,
    pub threshold: Option<f64>,
    pub period_minutes: Option<u32>,
    pub for_minutes: Option<u32>,
    pub notify_every_minutes: Option<u32>,
    pub notify_resolved: Option<bool>,
    pub severity: Option<AlertSeverity>,
    pub delivery: Patch<Delivery>,
    pub enabled: Option<bool>,
}

impl Alert {
    pub(super) fn with_defaults(id: AlertId, now: Timestamp) -> Self {
        Self {
            id,
            name: String::new(),
            condition: String::new(),
            threshold: 0.0,
            period_minutes: DEFAULT_PERIOD_MINUTES,
            for_minutes: 0,
            notify_every_minutes: DEFAULT_NOTIFY_EVERY_MINUTES,
            notify_resolved: false,
            severity: AlertSeverity::default(),
            delivery: None,
            enabled: true,
            lifecycle: Lifecycle::default(),
            peak_value: None,
            last_triggered: None,
            created_at: now,
            updated_at: now,
        }
    }

    pub(super) fn rule(&self) -> Rule {
        Rule { for_minutes: self.for_minutes, notify_every_minutes: self.notify_every_minutes }
    }

    /// Returns the current state.
    #[must_use]
    pub fn state(&self) -> AlertState {
        self.lifecycle.state
    }

    /// Applies a change and reports all invalid fields. Returns the changes to the URL's credentials.
    pub(super) fn apply(&mut self, change: AlertChange, is_new: bool, problems: &mut Problems) -> UrlSecrets {
        let has_threshold = !is_new || change.threshold.is_some();
        if let Some(name) = change.name {
            name.trim().clone_into(&mut self.name);
        }
        if let Some(condition) = change.condition {
            condition.trim().clone_into(&mut self.condition);
        }
        self.threshold = change.threshold.unwrap_or(self.threshold);
        self.period_minutes = change.period_minutes.unwrap_or(self.period_minutes);
        self.for_minutes = change.for_minutes.unwrap_or(self.for_minutes);
        self.notify_every_minutes = change.notify_every_minutes.unwrap_or(self.notify_every_minutes);
        self.notify_resolved = change.notify_resolved.unwrap_or(self.notify_resolved);
        self.severity = change.severity.unwrap_or(self.severity);
        self.enabled = change.enabled.unwrap_or(self.enabled);
        let secrets = self.apply_delivery(change.delivery, problems);
        self.check(has_threshold, problems);
        secrets
    }

    fn check(&self, has_threshold: bool, problems: &mut Problems) {
        problems.require(!self.name.is_empty(), "name", "is required and must not be blank");
        let characters = self.name.chars().count();
        problems.require(characters <= MAX_NAME_CHARACTERS, "name", "must have at most 200 characters");
        let is_clean = !self.name.chars().any(char::is_control);
        problems.require(is_clean, "name", "must not contain control characters");
        problems.require(self.threshold.is_finite(), "threshold", "must be a number");
        let is_period = (1..=MAX_PERIOD_MINUTES).contains(&self.period_minutes);
        problems.require(is_period, "period_minutes", "must be between 1 and 1,440 (one day)");
        problems.require(self.for_minutes <= MAX_FOR_MINUTES, "for_minutes", "must be between 0 and 1,440 (one day)");
        let is_every = self.notify_every_minutes <= MAX_NOTIFY_EVERY_MINUTES;
        problems.require(is_every, "notify_every_minutes", "must be between 0 (no repeats) and 10,080 (one week)");
        match CompiledCondition::check(&self.condition) {
            Ok(condition) => problems.require(
                has_threshold || !condition.names(Figure::Threshold),
                "threshold",
                "is required because the condition uses it",
            ),
            Err(error) => problems.add("condition", error.to_string()),
        }
    }

    fn apply_delivery(&mut self, wanted: Patch<Delivery>, problems: &mut Problems) -> UrlSecrets {
        let before = self.delivery.take();
        self.delivery = match wanted {
            Patch::Keep => before.clone(),
            Patch::Clear => None,
            Patch::Set(delivery) => Some(delivery),
        };
        let before_url = before.as_ref().map(|delivery| delivery.url.as_str());
        let given = self.delivery.as_ref().map_or("", |delivery| delivery.url.as_str());
        let sealed = match SealedUrl::new(given, before_url, UnknownMask::Refuse) {
            Ok(sealed) => sealed,
            Err(problem) => {
                problems.add("delivery.url", problem);
                return UrlSecrets::default();
            }
        };
        let Some(delivery) = &mut self.delivery else { return sealed.secrets };
        delivery.url = sealed.shown;
        if let Err(fault) = delivery.target() {
            problems.add("delivery.url", fault);
        }
        sealed.secrets
    }
}

/// Vault scope of the credentials in an alert's URL.
pub(super) fn secret_scope(id: &AlertId) -> String {
    format!("alerts.{id}")
}

/// One firing of an alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    pub id: FiringId,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub peak_value: Option<f64>,
    pub acknowledged_at: Option<Timestamp>,
    pub notices: Vec<Notice>,
}

/// Notice sent for a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub ordinal: u32,
    pub at: Timestamp,
    /// Destination without secrets.
    pub to: String,
    pub error: Option<String>,
}

/// Idempotency key of a notice.
pub(super) fn notice_key(firing: &FiringId, ordinal: u32) -> String {
    format!("alert:{firing}:{ordinal}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(kind: AlertDeliveryType, url: &str) -> Delivery {
        Delivery { kind, url: url.to_owned() }
    }

    #[test]
    fn delivery_target_matches_its_type() {
        use AlertDeliveryType::{Channel, Email, Webhook};
        for (kind, url, target) in [
            (Webhook, "https://x.example/a", Some("webhook:https://x.example/a")),
            (Email, "ada@example.org", Some("email:ada@example.org")),
            (Email, "mailto:ada@example.org", Some("email:ada@example.org")),
            (Email, "", Some("email:")),
            (Channel, "slack:#alerts", Some("slack:#alerts")),
            (Channel, "email:ada@example.org", None),
            (Channel, "webhook:https://x.example/", None),
            (Channel, "pigeon:7", None),
            (Channel, "", None),
            (Webhook, "slack:#alerts", None),
            (Webhook, "ftp://x.example/", None),
            (Email, "https://x.example/", None),
        ] {
            let found = delivery(kind, url).target().map(|target| target.to_string()).ok();
            assert_eq!(found.as_deref(), target, "{kind:?} {url}");
        }
    }

    #[test]
    fn invalid_alert_reports_each_field() {
        let mut problems = Problems::new();
        let change = AlertChange {
            name: Some(" ".to_owned()),
            condition: Some("cpu > threshold".to_owned()),
            threshold: Some(f64::NAN),
            period_minutes: Some(0),
            for_minutes: Some(1_441),
            notify_every_minutes: Some(10_081),
            delivery: Patch::Set(delivery(AlertDeliveryType::Webhook, "x")),
            ..AlertChange::default()
        };
        Alert::with_defaults(AlertId::from("alert_1"), Timestamp::from_micros(0)).apply(change, true, &mut problems);
        let found = problems.into_result().unwrap_err();
        let fields: Vec<&str> = found.iter().map(|problem| problem.field.as_str()).collect();
        let expected =
            ["delivery.url", "name", "threshold", "period_minutes", "for_minutes", "notify_every_minutes", "condition"];
        assert_eq!(fields, expected);
    }
}
