//! Failed logins, and attempts that are still being checked.

use agentd_base::Timestamp;
use agentd_store::{Read, StoreError, Tx, args};

use super::Hash;
use crate::auth::model::Network;

/// Maximum number of counted failures; more would not change the delay.
const MAX_COUNTED: u32 = 64;

/// Lists failures of a user from one network after `since`, newest first.
pub(crate) async fn list_failures(
    read: &mut Read,
    username_hash: &Hash,
    network: &Network,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<Timestamp>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT failed_at FROM login_failures WHERE username_hash = $1 AND network = $2 AND failed_at > $3 \
             ORDER BY failed_at DESC LIMIT $4",
            args![*username_hash, network.to_string(), since, limit],
        )
        .await?;
    rows.iter().map(|row| row.get("failed_at")).collect()
}

/// Counts the failures of a user from all networks after `since`, up to [`MAX_COUNTED`].
pub(crate) async fn count_failures(read: &mut Read, username_hash: &Hash, since: Timestamp) -> Result<u32, StoreError> {
    read.fetch_one(
        "SELECT COUNT(*) AS failures FROM (SELECT id FROM login_failures \
         WHERE username_hash = $1 AND failed_at > $2 LIMIT $3) AS recent",
        args![*username_hash, since, MAX_COUNTED],
    )
    .await?
    .get("failures")
}

pub(crate) async fn insert_failure(
    tx: &mut Tx,
    id: &str,
    username_hash: &Hash,
    network: &Network,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "INSERT INTO login_failures (id, username_hash, network, failed_at) VALUES ($1, $2, $3, $4)",
        args![id, *username_hash, network.to_string(), now],
    )
    .await?;
    Ok(())
}

/// Deletes a user's failures from one network.
pub(crate) async fn delete_failures(tx: &mut Tx, username_hash: &Hash, network: &Network) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM login_failures WHERE username_hash = $1 AND network = $2",
        args![*username_hash, network.to_string()],
    )
    .await?;
    Ok(())
}

/// Deletes an attempt that could not be evaluated.
pub(crate) async fn delete_failure(tx: &mut Tx, id: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM login_failures WHERE id = $1", args![id]).await?;
    Ok(())
}

pub(crate) async fn delete_older(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM login_failures WHERE id IN (SELECT id FROM login_failures WHERE failed_at <= $1 \
         ORDER BY failed_at LIMIT $2)",
        args![before, limit],
    )
    .await
}

/// Deletes up to `limit` failures beyond the newest `keep`.
pub(crate) async fn delete_surplus(tx: &mut Tx, keep: u32, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM login_failures WHERE id IN (SELECT id FROM login_failures \
         ORDER BY failed_at DESC, id DESC LIMIT $2 OFFSET $1)",
        args![keep, limit],
    )
    .await
}
