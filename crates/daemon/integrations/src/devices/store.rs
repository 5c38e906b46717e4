//! Queries of devices and pairing codes. Codes and tokens are passed as SHA-256 hashes.

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Tx, args};

use super::model::{Device, DeviceId, PairingCodeId};

type Hash = [u8; 32];

/// A device and its current connection.
#[derive(Debug, Clone)]
pub(super) struct DeviceRow {
    pub(super) device: Device,
    pub(super) token_hash: Vec<u8>,
    /// The instance that the device is connected to.
    pub(super) connected_to: Option<String>,
}

/// A code that has not expired or been used.
#[derive(Debug)]
pub(super) struct OpenCode {
    pub(super) id: PairingCodeId,
    pub(super) hash: Vec<u8>,
    pub(super) wrong_tries: u32,
}

const COLUMNS: &str = "id, name, slug, platform, metadata, token_hash, connected_to, created_at, last_seen_at";

fn device(row: &Row) -> Result<DeviceRow, StoreError> {
    Ok(DeviceRow {
        device: Device {
            id: row.get("id")?,
            name: row.get("name")?,
            slug: row.get("slug")?,
            platform: row.get("platform")?,
            metadata: row.json("metadata")?,
            created_at: row.get("created_at")?,
            last_seen_at: row.get("last_seen_at")?,
        },
        token_hash: row.get("token_hash")?,
        connected_to: row.get("connected_to")?,
    })
}

pub(super) async fn find_by_token(read: &mut Read, hash: &Hash) -> Result<Option<DeviceRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM devices WHERE token_hash = $1");
    read.fetch_optional(sql, args![*hash]).await?.as_ref().map(device).transpose()
}

/// All devices, oldest first.
pub(super) async fn list_devices(read: &mut Read) -> Result<Vec<DeviceRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM devices ORDER BY created_at, id");
    read.fetch_all(sql, args![]).await?.iter().map(device).collect()
}

pub(super) async fn list_slugs(read: &mut Read) -> Result<Vec<String>, StoreError> {
    read.fetch_all("SELECT slug FROM devices", args![]).await?.iter().map(Row::first).collect()
}

pub(super) async fn insert_device(tx: &mut Tx, device: &Device, token_hash: &Hash) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO devices (id, name, slug, platform, metadata, token_hash, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        args![
            &device.id,
            &device.name,
            &device.slug,
            &device.platform,
            serde_json::Value::from(device.metadata.clone()),
            *token_hash,
            device.created_at
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn delete_device(tx: &mut Tx, id: &DeviceId) -> Result<bool, StoreError> {
    Ok(tx.execute("DELETE FROM devices WHERE id = $1", args![id]).await? > 0)
}

/// Makes a connection the current one of the device. Returns `false` if the device does not exist.
pub(super) async fn attach(tx: &mut Tx, id: &DeviceId, connection: &str, instance: &str) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE devices SET connection_id = $2, connected_to = $3, last_seen_at = $4 WHERE id = $1";
    Ok(tx.execute(sql, args![id, connection, instance, now]).await? > 0)
}

/// Updates the last seen time. Returns `false` if the connection is no longer the current one.
pub(super) async fn touch(tx: &mut Tx, id: &DeviceId, connection: &str) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE devices SET last_seen_at = $3 WHERE id = $1 AND connection_id = $2";
    Ok(tx.execute(sql, args![id, connection, now]).await? > 0)
}

/// Clears the connection, unless another connection has replaced it.
pub(super) async fn detach(tx: &mut Tx, id: &DeviceId, connection: &str) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE devices SET connection_id = NULL, connected_to = NULL, last_seen_at = $3 \
               WHERE id = $1 AND connection_id = $2";
    tx.execute(sql, args![id, connection, now]).await?;
    Ok(())
}

/// The id of the current connection. The outer `None` means that the device does not exist.
pub(super) async fn find_connection(read: &mut Read, id: &DeviceId) -> Result<Option<Option<String>>, StoreError> {
    let row = read.fetch_optional("SELECT connection_id FROM devices WHERE id = $1", args![id]).await?;
    row.map(|row| row.get("connection_id")).transpose()
}

pub(super) async fn insert_code(
    tx: &mut Tx,
    id: &PairingCodeId,
    hash: &Hash,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO device_pairing_codes (id, code_hash, wrong_tries, expires_at) VALUES ($1, $2, 0, $3)",
        args![id, *hash, expires_at],
    )
    .await?;
    Ok(())
}

pub(super) async fn list_open_codes(read: &mut Read) -> Result<Vec<OpenCode>, StoreError> {
    let now = read.clock().now();
    let sql = "SELECT id, code_hash, wrong_tries FROM device_pairing_codes WHERE expires_at > $1 ORDER BY id";
    let rows = read.fetch_all(sql, args![now]).await?;
    let code = |row: &Row| {
        Ok(OpenCode { id: row.get("id")?, hash: row.get("code_hash")?, wrong_tries: row.get("wrong_tries")? })
    };
    rows.iter().map(code).collect()
}

/// Deletes a code. Returns `false` if it was used concurrently.
pub(super) async fn delete_code(tx: &mut Tx, id: &PairingCodeId) -> Result<bool, StoreError> {
    Ok(tx.execute("DELETE FROM device_pairing_codes WHERE id = $1", args![id]).await? > 0)
}

/// Deletes all codes except the newest `keep`.
pub(super) async fn trim_codes(tx: &mut Tx, keep: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM device_pairing_codes WHERE id NOT IN (SELECT id FROM device_pairing_codes \
         ORDER BY expires_at DESC, id DESC LIMIT $1)",
        args![keep],
    )
    .await
}

pub(super) async fn count_wrong_try(tx: &mut Tx) -> Result<(), StoreError> {
    tx.execute("UPDATE device_pairing_codes SET wrong_tries = wrong_tries + 1", args![]).await?;
    Ok(())
}

/// The failed attempts of a network after `since`, newest first.
pub(super) async fn list_failures(
    read: &mut Read,
    network: &str,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<Timestamp>, StoreError> {
    let sql = "SELECT failed_at FROM device_pairing_failures WHERE network = $1 AND failed_at > $2 \
               ORDER BY failed_at DESC LIMIT $3";
    read.fetch_all(sql, args![network, since, limit]).await?.iter().map(Row::first).collect()
}

pub(super) async fn insert_failure(tx: &mut Tx, id: &str, network: &str) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "INSERT INTO device_pairing_failures (id, network, failed_at) VALUES ($1, $2, $3)";
    tx.execute(sql, args![id, network, now]).await?;
    Ok(())
}

/// Whether there are rows to purge, so that an idle daemon does not write.
pub(super) async fn has_expired(
    read: &mut Read,
    failures_before: Timestamp,
    max_failures: u32,
) -> Result<bool, StoreError> {
    let now = read.clock().now();
    let sql = "SELECT (SELECT COUNT(*) FROM (SELECT 1 AS one FROM device_pairing_codes WHERE expires_at <= $1 LIMIT 1) AS c) \
               + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM device_pairing_failures WHERE failed_at <= $2 LIMIT 1) AS f) \
               + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM device_pairing_failures LIMIT 1 OFFSET $3) AS m) AS expired";
    let row = read.fetch_one(sql, args![now, failures_before, max_failures]).await?;
    Ok(row.get::<i64>("expired")? > 0)
}

pub(super) async fn delete_expired_codes(tx: &mut Tx, limit: u32) -> Result<u64, StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "DELETE FROM device_pairing_codes WHERE id IN (SELECT id FROM device_pairing_codes WHERE expires_at <= $1 \
         ORDER BY expires_at LIMIT $2)",
        args![now, limit],
    )
    .await
}

pub(super) async fn delete_older_failures(tx: &mut Tx, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM device_pairing_failures WHERE id IN (SELECT id FROM device_pairing_failures \
         WHERE failed_at <= $1 ORDER BY failed_at LIMIT $2)",
        args![before, limit],
    )
    .await
}

/// Deletes up to `limit` of the oldest failures in excess of `keep`.
pub(super) async fn delete_surplus_failures(tx: &mut Tx, keep: u32, limit: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM device_pairing_failures WHERE id IN (SELECT id FROM device_pairing_failures \
         ORDER BY failed_at DESC, id DESC LIMIT $2 OFFSET $1)",
        args![keep, limit],
    )
    .await
}
