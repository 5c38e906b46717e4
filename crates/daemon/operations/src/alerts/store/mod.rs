//! Rows of alerts.

mod evaluator;
mod firings;

use agentd_store::{Read, Row, StoreError, Topic, Tx, args};

use super::model::{Alert, AlertDeliveryType, AlertId, AlertSeverity, AlertState, Delivery, Lifecycle};

pub(super) use evaluator::{
    claim, count_pending, find_figures, list_dead_letters, list_figures, purge_figures, record_evaluation,
    upsert_figures,
};
pub(super) use firings::{
    acknowledge_firing, end_firing, has_expired, insert_firing, insert_notice, list_firings, purge_firings,
    trim_firings, update_peak,
};

/// Touched by every transaction that changes an alert.
pub(super) const ALERTS: Topic = Topic::new("alerts");

const COLUMNS: &str = "id, name, expression, threshold, period_minutes, for_minutes, notify_every_minutes, \
                       notify_resolved, severity, delivery_type, delivery_url, enabled, state, pending_since, \
                       firing_id, firing_since, acknowledged_at, snoozed_at, snoozed_until, noticed_at, notices, held_since, \
                       last_triggered, created_at, updated_at, \
                       (SELECT peak_value FROM alert_firings WHERE alert_firings.id = alerts.firing_id) AS peak_value";

/// Parses a stored name. A constraint of the table ensures that it is one of these.
fn parse_stored<T: Copy + Default>(text: &str, all: &[T], name: fn(T) -> &'static str) -> T {
    all.iter().copied().find(|one| name(*one) == text).unwrap_or_default()
}

fn alert(row: &Row) -> Result<Alert, StoreError> {
    let kind: Option<String> = row.get("delivery_type")?;
    let kind = kind.and_then(|text| AlertDeliveryType::ALL.into_iter().find(|kind| kind.as_str() == text));
    let url: Option<String> = row.get("delivery_url")?;
    Ok(Alert {
        id: row.get("id")?,
        name: row.get("name")?,
        condition: row.get("expression")?,
        threshold: row.get("threshold")?,
        period_minutes: row.get("period_minutes")?,
        for_minutes: row.get("for_minutes")?,
        notify_every_minutes: row.get("notify_every_minutes")?,
        notify_resolved: row.get("notify_resolved")?,
        severity: parse_stored(&row.get::<String>("severity")?, &AlertSeverity::ALL, AlertSeverity::as_str),
        delivery: kind.zip(url).map(|(kind, url)| Delivery { kind, url }),
        enabled: row.get("enabled")?,
        lifecycle: Lifecycle {
            state: parse_stored(&row.get::<String>("state")?, &AlertState::ALL, AlertState::as_str),
            pending_since: row.get("pending_since")?,
            firing_id: row.get("firing_id")?,
            firing_since: row.get("firing_since")?,
            acknowledged_at: row.get("acknowledged_at")?,
            snoozed_at: row.get("snoozed_at")?,
            snoozed_until: row.get("snoozed_until")?,
            noticed_at: row.get("noticed_at")?,
            notices: row.get("notices")?,
            held_since: row.get("held_since")?,
        },
        peak_value: row.get("peak_value")?,
        last_triggered: row.get("last_triggered")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Returns all alerts in order of creation.
pub(super) async fn list_alerts(read: &mut Read) -> Result<Vec<Alert>, StoreError> {
    let rows = read.fetch_all(format!("SELECT {COLUMNS} FROM alerts ORDER BY created_at, id"), args![]).await?;
    rows.iter().map(alert).collect()
}

pub(super) async fn find_alert(read: &mut Read, id: &AlertId) -> Result<Option<Alert>, StoreError> {
    let row = read.fetch_optional(format!("SELECT {COLUMNS} FROM alerts WHERE id = $1"), args![id]).await?;
    row.as_ref().map(alert).transpose()
}

pub(super) async fn count_alerts(read: &mut Read) -> Result<u64, StoreError> {
    read.fetch_one("SELECT COUNT(*) FROM alerts", args![]).await?.first()
}

pub(super) async fn insert_alert(tx: &mut Tx, alert: &Alert) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO alerts (id, name, expression, threshold, period_minutes, for_minutes, notify_every_minutes, \
         notify_resolved, severity, enabled, state, notices, created_at, updated_at) \
         VALUES ($1, '', '', 0.0, 1, 0, 0, 0, 'info', 0, 'ok', 0, $2, $2)",
        args![&alert.id, alert.created_at],
    )
    .await?;
    update_alert(tx, alert).await
}

/// Updates settings and state.
pub(super) async fn update_alert(tx: &mut Tx, alert: &Alert) -> Result<(), StoreError> {
    let delivery = alert.delivery.as_ref();
    tx.execute(
        "UPDATE alerts SET name = $2, expression = $3, threshold = $4, period_minutes = $5, for_minutes = $6, \
         notify_every_minutes = $7, notify_resolved = $8, severity = $9, delivery_type = $10, delivery_url = $11, \
         enabled = $12, updated_at = $13 WHERE id = $1",
        args![
            &alert.id,
            &alert.name,
            &alert.condition,
            alert.threshold,
            alert.period_minutes,
            alert.for_minutes,
            alert.notify_every_minutes,
            alert.notify_resolved,
            alert.severity.as_str(),
            delivery.map(|delivery| delivery.kind.as_str()),
            delivery.map(|delivery| delivery.url.as_str()),
            alert.enabled,
            alert.updated_at
        ],
    )
    .await?;
    update_lifecycle(tx, alert).await
}

/// Updates the state.
pub(super) async fn update_lifecycle(tx: &mut Tx, alert: &Alert) -> Result<(), StoreError> {
    let lifecycle = &alert.lifecycle;
    tx.touch(ALERTS);
    tx.execute(
        "UPDATE alerts SET state = $2, pending_since = $3, firing_id = $4, firing_since = $5, acknowledged_at = $6, \
         snoozed_at = $7, snoozed_until = $8, noticed_at = $9, notices = $10, held_since = $11, last_triggered = $12 \
         WHERE id = $1",
        args![
            &alert.id,
            lifecycle.state.as_str(),
            lifecycle.pending_since,
            lifecycle.firing_id.clone(),
            lifecycle.firing_since,
            lifecycle.acknowledged_at,
            lifecycle.snoozed_at,
            lifecycle.snoozed_until,
            lifecycle.noticed_at,
            lifecycle.notices,
            lifecycle.held_since,
            alert.last_triggered
        ],
    )
    .await
    .map(|_| ())
}

pub(super) async fn delete_alert(tx: &mut Tx, id: &AlertId) -> Result<(), StoreError> {
    tx.touch(ALERTS);
    tx.execute("DELETE FROM alerts WHERE id = $1", args![id]).await.map(|_| ())
}
