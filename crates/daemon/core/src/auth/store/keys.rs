//! SQL of API keys.

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Tx, args};

use super::Hash;
use crate::auth::model::{ApiKey, KeyId, parse_scope, scope_name};

const COLUMNS: &str = "id, name, description, scope, created_at, last_used";

pub(crate) async fn insert_key(tx: &mut Tx, key: &ApiKey, hash: &Hash) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO api_keys (id, name, description, scope, key_hash, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
        args![&key.id, &key.name, &key.description, scope_name(key.scope), *hash, key.created_at],
    )
    .await?;
    Ok(())
}

/// Counts active keys.
pub(crate) async fn count_keys(read: &mut Read) -> Result<i64, StoreError> {
    read.fetch_one("SELECT COUNT(*) AS keys FROM api_keys WHERE revoked_at IS NULL", args![]).await?.get("keys")
}

/// Lists active keys, newest first.
pub(crate) async fn list_keys(read: &mut Read) -> Result<Vec<ApiKey>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM api_keys WHERE revoked_at IS NULL ORDER BY created_at DESC, id DESC");
    read.fetch_all(sql, args![]).await?.iter().map(key).collect()
}

/// Returns the active key with this hash, and the stored hash.
pub(crate) async fn find_key(read: &mut Read, hash: &Hash) -> Result<Option<(ApiKey, Hash)>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, key_hash FROM api_keys WHERE key_hash = $1 AND revoked_at IS NULL");
    let row = read.fetch_optional(sql, args![*hash]).await?;
    row.map(|row| Ok((key(&row)?, row.get("key_hash")?))).transpose()
}

/// Replaces the hash of an active key and clears its last use.
pub(crate) async fn update_hash(tx: &mut Tx, id: &KeyId, hash: &Hash) -> Result<Option<ApiKey>, StoreError> {
    let sql = format!(
        "UPDATE api_keys SET key_hash = $2, last_used = NULL WHERE id = $1 AND revoked_at IS NULL RETURNING {COLUMNS}"
    );
    tx.fetch_optional(sql, args![id, *hash]).await?.as_ref().map(key).transpose()
}

/// Revokes a key; `false` if no active key has this id.
pub(crate) async fn revoke_key(tx: &mut Tx, id: &KeyId) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let revoked =
        tx.execute("UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL", args![id, now]).await?;
    Ok(revoked == 1)
}

/// Stores a use, unless the key was rotated since or a use after `not_after` is stored.
pub(crate) async fn update_last_used(
    tx: &mut Tx,
    hash: &Hash,
    used_at: Timestamp,
    not_after: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE api_keys SET last_used = $2 WHERE key_hash = $1 AND (last_used IS NULL OR last_used <= $3)",
        args![*hash, used_at, not_after],
    )
    .await?;
    Ok(())
}

fn key(row: &Row) -> Result<ApiKey, StoreError> {
    Ok(ApiKey {
        id: row.get("id")?,
        name: row.get("name")?,
        description: row.get("description")?,
        scope: parse_scope(&row.get::<String>("scope")?),
        created_at: row.get("created_at")?,
        last_used: row.get("last_used")?,
    })
}
