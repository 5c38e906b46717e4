//! Queries of monitoring.

use agentd_base::Timestamp;
use agentd_store::{Read, StoreError, args};
use serde_json::Value;

/// Counts waiting, leased and dead-lettered items by queue. Finished items are many and irrelevant, so they are not
/// counted.
pub(super) async fn list_queue_depths(read: &mut Read) -> Result<Vec<(String, String, u64)>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT queue, status, COUNT(*) AS items FROM queue WHERE status IN ('pending', 'leased') \
             GROUP BY queue, status \
             UNION ALL \
             SELECT queue, status, COUNT(*) AS items FROM queue WHERE status = 'dead_letter' GROUP BY queue, status",
            args![],
        )
        .await?;
    rows.iter().map(|row| Ok((row.get("queue")?, row.get("status")?, row.get("items")?))).collect()
}

/// Counts events by type since a time, with the time of the last event. Skips from type to type in the index, so older
/// events are not scanned.
pub(super) async fn count_events(
    read: &mut Read,
    since: Timestamp,
) -> Result<Vec<(String, u64, Timestamp)>, StoreError> {
    let sql = "WITH RECURSIVE types (name) AS (SELECT MIN(event_type) FROM outbox UNION ALL \
               SELECT (SELECT MIN(event_type) FROM outbox WHERE event_type > types.name) FROM types \
               WHERE types.name IS NOT NULL) \
               SELECT name, (SELECT COUNT(*) FROM outbox WHERE event_type = types.name AND created_at >= $1) AS events, \
               (SELECT MAX(created_at) FROM outbox WHERE event_type = types.name) AS last_at \
               FROM types WHERE name IS NOT NULL";
    let mut counted = Vec::new();
    for row in read.fetch_all(sql, args![since]).await? {
        let count: u64 = row.get("events")?;
        if count > 0 {
            counted.push((row.get("name")?, count, row.get("last_at")?));
        }
    }
    Ok(counted)
}

/// Event row.
#[derive(Debug)]
pub(super) struct EventRow {
    pub(super) id: String,
    pub(super) at: Timestamp,
    pub(super) data: Value,
}

/// Returns the newest events first.
pub(super) async fn list_recent_events(
    read: &mut Read,
    event_type: &str,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<EventRow>, StoreError> {
    let sql = "SELECT id, created_at, data FROM outbox WHERE event_type = $1 AND created_at >= $2 \
               ORDER BY created_at DESC, id DESC LIMIT $3";
    let rows = read.fetch_all(sql, args![event_type, since, limit]).await?;
    let event = |row: &agentd_store::Row| {
        Ok(EventRow { id: row.get("id")?, at: row.get("created_at")?, data: row.json("data").unwrap_or(Value::Null) })
    };
    rows.iter().map(event).collect()
}
