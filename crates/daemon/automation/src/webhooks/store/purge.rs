//! Queries for purging: expired deliveries, deliveries beyond a webhook's limits, and data of deleted webhooks.

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Tx, args};

use crate::webhooks::model::{WebhookDeliveryId, WebhookId};

/// Condition of a completed delivery.
const HAS_ENDED: &str = "status NOT IN ('pending', 'running')";

fn ids(rows: &[Row]) -> Result<Vec<WebhookDeliveryId>, StoreError> {
    rows.iter().map(|row| row.get("id")).collect()
}

/// Returns completed deliveries received before `before`, oldest first.
pub(crate) async fn list_old(
    read: &mut Read,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<WebhookDeliveryId>, StoreError> {
    let sql = format!(
        "SELECT id FROM webhook_deliveries WHERE created_at < $1 AND {HAS_ENDED} ORDER BY created_at, id LIMIT $2"
    );
    ids(&read.fetch_all(sql, args![before, limit]).await?)
}

/// Returns completed deliveries of a webhook beyond its newest `max_count` or its newest `max_bytes`, oldest first.
pub(crate) async fn list_surplus(
    read: &mut Read,
    webhook: &WebhookId,
    max_count: u64,
    max_bytes: u64,
    limit: u32,
) -> Result<Vec<WebhookDeliveryId>, StoreError> {
    let sql = format!(
        "SELECT id FROM (SELECT id, status, created_at, \
         ROW_NUMBER() OVER (ORDER BY created_at DESC, id DESC) AS place, \
         CAST(SUM(body_bytes) OVER (ORDER BY created_at DESC, id DESC) AS BIGINT) AS so_far \
         FROM webhook_deliveries WHERE webhook_id = $1) AS ranked \
         WHERE (place > $2 OR (so_far > $3 AND place > 1)) AND {HAS_ENDED} ORDER BY created_at, id LIMIT $4"
    );
    ids(&read.fetch_all(sql, args![webhook, max_count, max_bytes, limit]).await?)
}

/// Returns a deleted webhook whose rows still exist.
pub(crate) async fn find_hidden(read: &mut Read) -> Result<Option<WebhookId>, StoreError> {
    let sql = "SELECT id FROM webhooks WHERE deleted_at IS NOT NULL ORDER BY deleted_at, id LIMIT 1";
    read.fetch_optional(sql, args![]).await?.map(|row| row.get("id")).transpose()
}

/// Returns deliveries of a webhook in any state, oldest first.
pub(crate) async fn list_of_webhook(
    read: &mut Read,
    webhook: &WebhookId,
    limit: u32,
) -> Result<Vec<WebhookDeliveryId>, StoreError> {
    let sql = "SELECT id FROM webhook_deliveries WHERE webhook_id = $1 ORDER BY created_at, id LIMIT $2";
    ids(&read.fetch_all(sql, args![webhook, limit]).await?)
}

/// Deletes deliveries with their requests.
pub(crate) async fn delete_deliveries(tx: &mut Tx, ids: &[WebhookDeliveryId]) -> Result<(), StoreError> {
    for id in ids {
        tx.execute("DELETE FROM webhook_requests WHERE delivery_id = $1", args![id]).await?;
        tx.execute("DELETE FROM webhook_deliveries WHERE id = $1", args![id]).await?;
    }
    Ok(())
}

/// Deletes up to `limit` message ids of a webhook and returns their number.
pub(crate) async fn delete_messages(tx: &mut Tx, webhook: &WebhookId, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM webhook_messages WHERE webhook_id = $1 AND message_id IN \
         (SELECT message_id FROM webhook_messages WHERE webhook_id = $1 LIMIT $2)",
        args![webhook, limit],
    )
    .await
}

pub(crate) async fn delete_hidden(tx: &mut Tx, webhook: &WebhookId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM webhooks WHERE id = $1 AND deleted_at IS NOT NULL", args![webhook]).await.map(|_| ())
}

/// Whether message ids received before `before` exist.
pub(crate) async fn has_old_messages(read: &mut Read, before: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT 1 AS one FROM webhook_messages WHERE received_at < $1 LIMIT 1";
    Ok(read.fetch_optional(sql, args![before]).await?.is_some())
}

/// Deletes up to `limit` message ids received before `before` and returns their number.
pub(crate) async fn delete_old_messages(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM webhook_messages WHERE (webhook_id, message_id) IN \
         (SELECT webhook_id, message_id FROM webhook_messages WHERE received_at < $1 ORDER BY received_at LIMIT $2)",
        args![before, limit],
    )
    .await
}
