//! SQL of secrets.

use agentd_store::{Read, StoreError, Tx, args};

pub(super) async fn find_secret(read: &mut Read, scope: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT sealed FROM secrets WHERE scope = $1 AND name = $2";
    read.fetch_optional(sql, args![scope, name]).await?.map(|row| row.get("sealed")).transpose()
}

/// Lists all secrets as (scope, name, sealed), ordered by scope and name.
pub(super) async fn list_secrets(read: &mut Read) -> Result<Vec<(String, String, Vec<u8>)>, StoreError> {
    let rows = read.fetch_all("SELECT scope, name, sealed FROM secrets ORDER BY scope, name", args![]).await?;
    rows.iter().map(|row| Ok((row.get("scope")?, row.get("name")?, row.get("sealed")?))).collect()
}

pub(super) async fn upsert_secret(tx: &mut Tx, scope: &str, name: &str, sealed: Vec<u8>) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "INSERT INTO secrets (scope, name, sealed, updated_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (scope, name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at",
        args![scope, name, sealed, now],
    )
    .await?;
    Ok(())
}

pub(super) async fn delete_secret(tx: &mut Tx, scope: &str, name: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM secrets WHERE scope = $1 AND name = $2", args![scope, name]).await?;
    Ok(())
}

pub(super) async fn delete_secrets_of(tx: &mut Tx, scope: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM secrets WHERE scope = $1", args![scope]).await?;
    Ok(())
}

/// Returns the fingerprint of the key that encrypts the secrets of this database. It is specific to the database and
/// not part of backups.
pub(super) async fn find_key_fingerprint(read: &mut Read) -> Result<Option<String>, StoreError> {
    let sql = "SELECT value FROM store_info WHERE name = 'vault_key_fingerprint'";
    read.fetch_optional(sql, args![]).await?.map(|row| row.get("value")).transpose()
}

/// Stores the fingerprint unless one is stored, and returns the stored one.
pub(super) async fn insert_key_fingerprint(tx: &mut Tx, fingerprint: &str) -> Result<String, StoreError> {
    tx.execute(
        "INSERT INTO store_info (name, value) VALUES ('vault_key_fingerprint', $1) ON CONFLICT (name) DO NOTHING",
        args![fingerprint],
    )
    .await?;
    find_key_fingerprint(tx).await.map(Option::unwrap_or_default)
}

/// Whether no secret is stored.
pub(crate) async fn is_empty(read: &mut Read) -> Result<bool, StoreError> {
    Ok(list_secrets(read).await?.is_empty())
}
