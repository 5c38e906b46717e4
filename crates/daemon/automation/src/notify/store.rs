//! Rows of notifications.

use std::collections::BTreeMap;

use agentd_base::{Page, Timestamp};
use agentd_core::vault::{SealedUrl, UnknownMask, Vault, write_url_secrets};
use agentd_store::{Args, ItemId, NewItem, Read, Row, StoreError, Tx, args, in_list};
use serde_json::json;

use super::model::{
    DEFAULT_ATTEMPTS, MAX_ATTEMPTS, MessageFormat, Notification, NotificationId, NotificationStatus,
    StoredNotification, is_hook_key, one_line,
};

/// Name of the message queue.
pub(super) const QUEUE: &str = "notify";

const COLUMNS: &str = "id, idempotency_key, platform, channel, agent, subject, body, format, details, status, \
                       attempt_count, next_attempt_at, reference, error, created_at, updated_at";

fn notification(row: &Row) -> Result<StoredNotification, StoreError> {
    let (format, status): (String, String) = (row.get("format")?, row.get("status")?);
    let key: Option<String> = row.get("idempotency_key")?;
    Ok(StoredNotification {
        id: row.get("id")?,
        platform: row.get("platform")?,
        channel: row.get("channel")?,
        agent: row.get("agent")?,
        is_of_hook: is_hook_key(key.as_deref()),
        subject: row.get("subject")?,
        body: row.get("body")?,
        // The database constraint excludes unknown values.
        format: MessageFormat::parse(&format).unwrap_or_default(),
        details: row.get::<Option<String>>("details")?.and_then(|text| serde_json::from_str(&text).ok()),
        status: NotificationStatus::parse(&status).unwrap_or(NotificationStatus::DeadLetter),
        attempt_count: row.get("attempt_count")?,
        next_attempt_at: row.get("next_attempt_at")?,
        reference: row.get("reference")?,
        error: row.get("error")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

pub(super) async fn find_id_by_key(read: &mut Read, key: &str) -> Result<Option<NotificationId>, StoreError> {
    let row = read.fetch_optional("SELECT id FROM notifications WHERE idempotency_key = $1", args![key]).await?;
    row.map(|row| row.get("id")).transpose()
}

/// Returns the status and last error of messages by idempotency key.
pub(super) async fn outcomes_by_key(
    read: &mut Read,
    keys: &[String],
) -> Result<BTreeMap<String, (NotificationStatus, Option<String>)>, StoreError> {
    let mut found = BTreeMap::new();
    for keys in keys.chunks(64) {
        let mut values = Args::new();
        let list = in_list(&mut values, keys);
        let sql = format!("SELECT idempotency_key, status, error FROM notifications WHERE idempotency_key IN ({list})");
        for row in read.fetch_all(sql, values).await? {
            let status: String = row.get("status")?;
            let status = NotificationStatus::parse(&status).unwrap_or(NotificationStatus::DeadLetter);
            found.insert(row.get("idempotency_key")?, (status, row.get("error")?));
        }
    }
    Ok(found)
}

/// Returns the vault scope of the credentials in a message's URL.
pub(super) fn secret_scope(id: &NotificationId) -> String {
    format!("notifications.{id}")
}

/// Stores a message, the credentials in its URL, and its queue item. Returns its id, or that of the existing message
/// with the same idempotency key; `None` if that one was deleted concurrently.
pub(super) async fn insert_notification(
    tx: &mut Tx,
    vault: &Vault,
    new: &Notification,
) -> Result<Option<NotificationId>, StoreError> {
    let channel = new.target.channel();
    let sealed = SealedUrl::new(channel, None, UnknownMask::Leave).ok();
    let (id, now) = (NotificationId::generate(tx.ids()), tx.clock().now());
    let added = tx
        .execute(
            "INSERT INTO notifications (id, idempotency_key, item_id, platform, channel, agent, subject, body, format, \
             details, status, attempt_count, next_attempt_at, created_at, updated_at) \
             VALUES ($1, $2, '', $3, $4, $5, $6, $7, $8, $9, 'pending', 0, $10, $10, $10) \
             ON CONFLICT (idempotency_key) DO NOTHING",
            args![
                &id,
                new.idempotency_key.as_deref(),
                new.target.platform(),
                sealed.as_ref().map_or(channel, |sealed| sealed.shown.as_str()),
                new.agent.as_deref(),
                one_line(&new.subject),
                // PostgreSQL cannot store NUL characters in text.
                new.body.replace('\0', "\u{fffd}"),
                new.format.as_str(),
                new.details.as_ref().map(ToString::to_string),
                now
            ],
        )
        .await?;
    if added == 0 {
        return find_id_by_key(tx, new.idempotency_key.as_deref().unwrap_or_default()).await;
    }
    if let Some(sealed) = &sealed {
        write_url_secrets(tx, vault, &secret_scope(&id), &sealed.secrets).await?;
    }
    add_item(tx, &id, new.max_attempts.unwrap_or(DEFAULT_ATTEMPTS).clamp(1, MAX_ATTEMPTS)).await?;
    Ok(Some(id))
}

/// Adds a queue item for a message that has none.
pub(super) async fn add_item(tx: &mut Tx, id: &NotificationId, max_attempts: u32) -> Result<(), StoreError> {
    let run_at = tx.clock().now();
    let payload = json!({"notification_id": id});
    let item = NewItem { queue: QUEUE.to_owned(), dedup_key: None, payload, run_at, max_attempts };
    let item = tx.enqueue(item).await?;
    tx.execute("UPDATE notifications SET item_id = $2 WHERE id = $1", args![id, item.id()]).await?;
    Ok(())
}

pub(super) async fn find_notification(
    read: &mut Read,
    id: &NotificationId,
) -> Result<Option<StoredNotification>, StoreError> {
    let row = read.fetch_optional(format!("SELECT {COLUMNS} FROM notifications WHERE id = $1"), args![id]).await?;
    row.as_ref().map(notification).transpose()
}

pub(super) async fn find_item_id(read: &mut Read, id: &NotificationId) -> Result<Option<ItemId>, StoreError> {
    let row = read.fetch_optional("SELECT item_id FROM notifications WHERE id = $1", args![id]).await?;
    row.map(|row| row.get("item_id")).transpose()
}

/// Returns a page of notifications, newest first, and their total number.
pub(super) async fn list_notifications(
    read: &mut Read,
    status: Option<NotificationStatus>,
    platform: Option<&str>,
    page: Page,
) -> Result<(Vec<StoredNotification>, u64), StoreError> {
    let mut args = Args::new();
    let wanted = [("status", status.map(NotificationStatus::as_str)), ("platform", platform)];
    let conditions: Vec<String> =
        wanted.into_iter().filter_map(|(column, value)| Some(format!("{column} = ${}", args.push(value?)))).collect();
    let condition = if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
    let sql = format!("SELECT COUNT(*) AS total FROM notifications {condition}");
    let total = read.fetch_one(sql, args.clone()).await?.get("total")?;
    let (limit, offset) = (args.push(page.limit), args.push(page.offset));
    let sql = format!(
        "SELECT {COLUMNS} FROM notifications {condition} ORDER BY created_at DESC, id DESC LIMIT ${limit} OFFSET ${offset}"
    );
    let rows = read.fetch_all(sql, args).await?;
    Ok((rows.iter().map(notification).collect::<Result<_, _>>()?, total))
}

pub(super) async fn update_sent(
    tx: &mut Tx,
    id: &NotificationId,
    attempt: u32,
    reference: Option<&str>,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "UPDATE notifications SET status = 'sent', attempt_count = $2, next_attempt_at = NULL, reference = $3, \
         error = NULL, updated_at = $4 WHERE id = $1",
        args![id, attempt, reference, now],
    )
    .await?;
    Ok(())
}

/// Records a failed attempt. The message is due again at `next_attempt_at`, or becomes a dead letter without it.
pub(super) async fn update_failed(
    tx: &mut Tx,
    id: &NotificationId,
    attempt: u32,
    error: &str,
    next_attempt_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    let status = match next_attempt_at {
        Some(_) => NotificationStatus::Pending,
        None => NotificationStatus::DeadLetter,
    };
    let now = tx.clock().now();
    tx.execute(
        "UPDATE notifications SET status = $2, attempt_count = $3, next_attempt_at = $4, error = $5, updated_at = $6 \
         WHERE id = $1",
        args![id, status.as_str(), attempt, next_attempt_at, error, now],
    )
    .await?;
    Ok(())
}

/// Returns the sent message with the platform's reference.
pub(super) async fn find_sent(
    read: &mut Read,
    platform: &str,
    reference: &str,
) -> Result<Option<StoredNotification>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM notifications WHERE platform = $1 AND reference = $2 AND status = 'sent' LIMIT 1"
    );
    read.fetch_optional(sql, args![platform, reference]).await?.as_ref().map(notification).transpose()
}

/// Dead-letters a sent message that was not delivered. Returns whether it was still in state `sent`.
pub(super) async fn update_undelivered(tx: &mut Tx, id: &NotificationId, error: &str) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE notifications SET status = 'dead_letter', error = $2, updated_at = $3 WHERE id = $1 AND \
               status = 'sent'";
    Ok(tx.execute(sql, args![id, error, now]).await? == 1)
}

/// Marks a dead letter as pending. The last error stays visible.
pub(super) async fn update_retried(tx: &mut Tx, id: &NotificationId) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "UPDATE notifications SET status = 'pending', attempt_count = 0, next_attempt_at = $2, updated_at = $2 \
         WHERE id = $1",
        args![id, now],
    )
    .await?;
    Ok(())
}

/// Returns pending messages that were not updated since `before`, oldest first.
pub(super) async fn list_stale(
    read: &mut Read,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<(NotificationId, ItemId)>, StoreError> {
    let sql = "SELECT id, item_id FROM notifications WHERE status = 'pending' AND updated_at < $1 \
               ORDER BY created_at, id LIMIT $2";
    let rows = read.fetch_all(sql, args![before, limit]).await?;
    rows.iter().map(|row| Ok((row.get("id")?, row.get("item_id")?))).collect()
}

/// Returns messages that ended before `before`, earliest end first.
pub(super) async fn list_ended(
    read: &mut Read,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<(NotificationId, ItemId)>, StoreError> {
    let sql = "SELECT id, item_id FROM notifications WHERE status <> 'pending' AND updated_at < $1 \
               ORDER BY updated_at LIMIT $2";
    let rows = read.fetch_all(sql, args![before, limit]).await?;
    rows.iter().map(|row| Ok((row.get("id")?, row.get("item_id")?))).collect()
}

pub(super) async fn delete_notification(tx: &mut Tx, id: &NotificationId) -> Result<(), StoreError> {
    Vault::clear_scope(tx, &secret_scope(id)).await?;
    tx.execute("DELETE FROM notifications WHERE id = $1", args![id]).await?;
    Ok(())
}
