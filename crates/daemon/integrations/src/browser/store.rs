//! Rows of saved login states.

use agentd_store::{Read, Row, StoreError, Tx, args};

use super::model::AuthState;

const COLUMNS: &str = "name, cookie_count, origin_count, created_at, updated_at";

fn auth_state(row: &Row) -> Result<AuthState, StoreError> {
    Ok(AuthState {
        name: row.get("name")?,
        cookies: row.get("cookie_count")?,
        origins: row.get("origin_count")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

pub(super) async fn list_auth_states(read: &mut Read) -> Result<Vec<AuthState>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM browser_auth_states ORDER BY name");
    read.fetch_all(sql, args![]).await?.iter().map(auth_state).collect()
}

pub(super) async fn find_auth_state(read: &mut Read, name: &str) -> Result<Option<AuthState>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM browser_auth_states WHERE name = $1");
    read.fetch_optional(sql, args![name]).await?.as_ref().map(auth_state).transpose()
}

pub(super) async fn count_auth_states(read: &mut Read) -> Result<u64, StoreError> {
    read.fetch_one("SELECT COUNT(*) FROM browser_auth_states", args![]).await?.first()
}

/// Inserts or replaces a state; the creation time is retained.
pub(super) async fn upsert_auth_state(tx: &mut Tx, state: &AuthState) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO browser_auth_states (name, cookie_count, origin_count, created_at, updated_at) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO UPDATE SET cookie_count = excluded.cookie_count, \
         origin_count = excluded.origin_count, updated_at = excluded.updated_at",
        args![state.name.as_str(), state.cookies, state.origins, state.created_at, state.updated_at],
    )
    .await
    .map(|_| ())
}

/// Deletes a state; returns whether it existed.
pub(super) async fn delete_auth_state(tx: &mut Tx, name: &str) -> Result<bool, StoreError> {
    Ok(tx.execute("DELETE FROM browser_auth_states WHERE name = $1", args![name]).await? > 0)
}
