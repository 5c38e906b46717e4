//! Rows of push devices.

use agentd_core::vault::Vault;
use agentd_store::{Read, Row, StoreError, Tx, args};

use super::model::{PushSubscription, PushSubscriptionId};

const COLUMNS: &str =
    "id, endpoint_sha256, service, user_agent, created_at, last_success_at, last_failure_at, last_error";

fn subscription(row: &Row) -> Result<PushSubscription, StoreError> {
    Ok(PushSubscription {
        id: row.get("id")?,
        endpoint_sha256: row.get("endpoint_sha256")?,
        service: row.get("service")?,
        user_agent: row.get("user_agent")?,
        created_at: row.get("created_at")?,
        last_success_at: row.get("last_success_at")?,
        last_failure_at: row.get("last_failure_at")?,
        last_error: row.get("last_error")?,
    })
}

/// Returns the vault scope of a device's URL and keys.
pub(super) fn secret_scope(id: &PushSubscriptionId) -> String {
    format!("push.{id}")
}

pub(super) async fn count(read: &mut Read) -> Result<u64, StoreError> {
    read.fetch_one("SELECT COUNT(*) FROM push_subscriptions", args![]).await?.first()
}

pub(super) async fn list(read: &mut Read) -> Result<Vec<PushSubscription>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM push_subscriptions ORDER BY created_at DESC, id DESC");
    read.fetch_all(sql, args![]).await?.iter().map(subscription).collect()
}

pub(super) async fn contains(read: &mut Read, id: &PushSubscriptionId) -> Result<bool, StoreError> {
    Ok(read.fetch_optional("SELECT id FROM push_subscriptions WHERE id = $1", args![id]).await?.is_some())
}

pub(super) async fn find_by_endpoint(read: &mut Read, sha256: &str) -> Result<Option<PushSubscription>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM push_subscriptions WHERE endpoint_sha256 = $1");
    read.fetch_optional(sql, args![sha256]).await?.as_ref().map(subscription).transpose()
}

/// Inserts a device, or resets an existing one.
pub(super) async fn upsert(tx: &mut Tx, new: &PushSubscription) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO push_subscriptions (id, endpoint_sha256, service, user_agent, created_at) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO UPDATE SET user_agent = excluded.user_agent, \
         created_at = excluded.created_at, last_success_at = NULL, last_failure_at = NULL, last_error = NULL",
        args![&new.id, new.endpoint_sha256.as_str(), new.service.as_str(), new.user_agent.as_str(), new.created_at],
    )
    .await
    .map(|_| ())
}

/// Records the outcome of a request. `error` is `None` for a success.
pub(super) async fn record_outcome(
    tx: &mut Tx,
    id: &PushSubscriptionId,
    error: Option<&str>,
) -> Result<(), StoreError> {
    let column = if error.is_some() { "last_failure_at" } else { "last_success_at" };
    let now = tx.clock().now();
    let sql = format!("UPDATE push_subscriptions SET {column} = $2, last_error = $3 WHERE id = $1");
    tx.execute(sql, args![id, now, error]).await.map(|_| ())
}

/// Deletes a device with its secrets. Returns whether it existed.
pub(super) async fn delete(tx: &mut Tx, id: &PushSubscriptionId) -> Result<bool, StoreError> {
    Vault::clear_scope(tx, &secret_scope(id)).await?;
    Ok(tx.execute("DELETE FROM push_subscriptions WHERE id = $1", args![id]).await? > 0)
}
