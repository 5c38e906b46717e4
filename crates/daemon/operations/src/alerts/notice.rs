//! Texts of notices.

use agentd_automation::notify::{MessageFormat, Notification, PushDetails, Target};
use agentd_base::Timestamp;
use serde_json::json;

use super::model::{Alert, AlertDeliveryType, AlertSeverity, CompiledCondition, Figure, NoticeKind};

/// Message without a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) subject: String,
    pub(super) body: String,
    pub(super) format: MessageFormat,
}

/// Returns the recommended first diagnostic step.
fn advice(figure: Option<Figure>) -> &'static str {
    match figure {
        Some(Figure::ErrorRate | Figure::RequestsPerMinute | Figure::LatencyP95Ms) => {
            "See GET /api/monitoring/performance for the affected routes and the daemon's log for the errors."
        }
        Some(Figure::Tokens | Figure::Cost | Figure::BudgetPercent) => {
            "See GET /api/monitoring/usage for the usage by agent and key; set limits with PUT /api/settings/agent."
        }
        Some(Figure::QueuePending | Figure::DeadLetters) => {
            "See GET /api/hooks/deliveries/dead-letters and GET /api/notifications?status=dead_letter for the reasons; both \
             can be retried."
        }
        Some(Figure::FailedRuns | Figure::ConsecutiveFailedRuns) => {
            "See the runs of the jobs in GET /api/scheduler/jobs for their errors."
        }
        Some(Figure::CpuPercent | Figure::MemoryPercent | Figure::DiskPercent) => {
            "See GET /api/monitoring/system for the load of the machine and the size of the data directory."
        }
        Some(Figure::ModelCalls | Figure::FailedModelCalls) => {
            "See GET /api/monitoring/performance for the failing providers, and check their keys."
        }
        Some(Figure::Threshold) | None => "See GET /api/monitoring/performance and GET /api/monitoring/system.",
    }
}

fn headline(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Started => "fires",
        NoticeKind::Repeated => "still fires",
        NoticeKind::SnoozeExpired => "still fires after its snooze",
        NoticeKind::Resolved => "is resolved",
    }
}

fn reason(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Started => "begun",
        NoticeKind::Repeated => "repeated",
        NoticeKind::SnoozeExpired => "snooze_over",
        NoticeKind::Resolved => "resolved",
    }
}

/// Builds the push notification, which replaces earlier ones of the alert. It is silent if `is_quiet`, unless the alert
/// is critical.
pub(super) fn build_push(alert: &Alert, kind: NoticeKind, value: Option<f64>, is_quiet: bool) -> Notification {
    let subject = format!("{} {}", alert.name, headline(kind));
    let value = value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let body = format!("{}: {value}, threshold {}", alert.condition, alert.threshold);
    let details = PushDetails {
        url: "/monitoring/alerts".to_owned(),
        tag: format!("alert:{}", alert.id),
        is_urgent: alert.severity == AlertSeverity::Critical,
        is_silent: is_quiet && alert.severity != AlertSeverity::Critical,
        ..PushDetails::default()
    };
    Notification::new(Target::Push(String::new()), subject, body)
        .format(MessageFormat::Text)
        .details(serde_json::to_value(details).unwrap_or_default())
}

/// Builds the message; `since` is the start of the firing.
pub(super) fn build_text(
    alert: &Alert,
    condition: Option<&CompiledCondition>,
    kind: NoticeKind,
    value: Option<f64>,
    since: Option<Timestamp>,
) -> Text {
    let severity = alert.severity.as_str();
    let subject = format!("[{severity}] {} {}", alert.name, headline(kind));
    let first =
        condition.and_then(|condition| condition.figures().iter().copied().find(|figure| *figure != Figure::Threshold));
    let instructions = match kind {
        NoticeKind::Resolved => "No action needed: the condition is no longer true.".to_owned(),
        _ => format!(
            "{} Stop further notices with POST /api/monitoring/alerts/{id}/acknowledge, or pause them with …/{id}/snooze.",
            advice(first),
            id = alert.id
        ),
    };
    if alert.delivery.as_ref().is_some_and(|delivery| delivery.kind == AlertDeliveryType::Webhook) {
        let body = json!({
            "alert_id": alert.id,
            "name": alert.name,
            "state": if kind == NoticeKind::Resolved { "resolved" } else { "firing" },
            "reason": reason(kind),
            "severity": alert.severity,
            "condition": alert.condition,
            "value": value,
            "threshold": alert.threshold,
            "period_minutes": alert.period_minutes,
            "firing_since": since,
            "what_to_do": instructions,
        });
        return Text { subject, body: body.to_string(), format: MessageFormat::Json };
    }
    let value = value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let since = since.map_or_else(String::new, |since| format!("- Since: {since}\n"));
    let body = format!(
        "{subject}\n\n- Condition: `{}`, over {} minutes\n- Value: {value}\n- Threshold: {}\n{since}\n{instructions}\n",
        alert.condition, alert.period_minutes, alert.threshold,
    );
    Text { subject, body, format: MessageFormat::Markdown }
}
