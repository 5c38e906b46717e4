//! What has had its time: old deliveries, those beyond what a webhook keeps, and all of a deleted one.

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Tx, args};

use crate::webhooks::model::{WebhookDeliveryId, WebhookId};

/// The condition of a delivery that nothing more comes of.
const HAS_ENDED: &str = "status NOT IN ('pending', 'running')";

fn ids(rows: &[Row]) -> Result<Vec<WebhookDeliveryId>, StoreError> {
    rows.iter().map(|row| row.get("id")).collect()
}

/// Ended deliveries that came before `before`, the oldest first.
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

/// Ended deliveries of a webhook that are not among its newest `most`, or came before its newest
/// `most_bytes`; the oldest first.
pub(crate) async fn list_surplus(
    read: &mut Read,
    webhook: &WebhookId,
    most: u64,
    most_bytes: u64,
    limit: u32,
) -> Result<Vec<WebhookDeliveryId>, StoreError> {
    let sql = format!(
        "SELECT id FROM (SELECT id, status, created_at, \
         ROW_NUMBER() OVER (ORDER BY created_at DESC, id DESC) AS place, \
         CAST(SUM(body_bytes) OVER (ORDER BY created_at DESC, id DESC) AS BIGINT) AS so_far \
         FROM webhook_deliveries WHERE webhook_id = $1) AS ranked \
         WHERE (place > $2 OR (so_far > $3 AND place > 1)) AND {HAS_ENDED} ORDER BY created_at, id LIMIT $4"
    );
    ids(&read.fetch_all(sql, args![webhook, most, most_bytes, limit]).await?)
}

/// A deleted webhook whose rows are still there.
pub(crate) async fn find_hidden(read: &mut Read) -> Result<Option<WebhookId>, StoreError> {
    let sql = "SELECT id FROM webhooks WHERE deleted_at IS NOT NULL ORDER BY deleted_at, id LIMIT 1";
    read.fetch_optional(sql, args![]).await?.map(|row| row.get("id")).transpose()
}

/// Deliveries of a webhook, the oldest first, whatever becomes of them.
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

/// Forgets ids of messages of a webhook; answers how many.
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

/// Whether ids of messages are older than `before`.
pub(crate) async fn has_old_messages(read: &mut Read, before: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT 1 AS one FROM webhook_messages WHERE received_at < $1 LIMIT 1";
    Ok(read.fetch_optional(sql, args![before]).await?.is_some())
}

/// Forgets ids of messages that came before `before`; answers how many.
pub(crate) async fn delete_old_messages(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM webhook_messages WHERE (webhook_id, message_id) IN \
         (SELECT webhook_id, message_id FROM webhook_messages WHERE received_at < $1 ORDER BY received_at LIMIT $2)",
        args![before, limit],
    )
    .await
}
