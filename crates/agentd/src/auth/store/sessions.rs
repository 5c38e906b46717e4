//! Sessions of logged-in users.

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Tx, args};

use super::Hash;
use crate::auth::model::{LoginOrigin, UserAgent, UserId, UserSession, UserSessionId};

/// A session as it authenticates.
#[derive(Debug, Clone)]
pub(crate) struct FoundSession {
    pub(crate) id: UserSessionId,
    pub(crate) user_id: UserId,
    pub(crate) token_hash: Hash,
    pub(crate) expires_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
}

pub(crate) async fn insert_session(
    tx: &mut Tx,
    id: &UserSessionId,
    user_id: &UserId,
    token_hash: &Hash,
    expires_at: Timestamp,
    origin: &LoginOrigin,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let user_agent = origin.user_agent.as_ref().map(|agent| UserAgent::as_str(agent).to_owned());
    let address = origin.address.map(|address| address.to_canonical().to_string());
    tx.execute(
        "INSERT INTO user_sessions (id, user_id, token_hash, created_at, expires_at, user_agent, address) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        args![id, user_id, *token_hash, now, expires_at, user_agent, address],
    )
    .await?;
    Ok(())
}

/// Ends all but the newest `keep` sessions of a user; answers how many ended.
pub(crate) async fn trim_sessions(tx: &mut Tx, user_id: &UserId, keep: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM user_sessions WHERE id IN (SELECT id FROM user_sessions WHERE user_id = $1 \
         ORDER BY created_at DESC, id DESC LIMIT 100 OFFSET $2)",
        args![user_id, keep],
    )
    .await
}

pub(crate) async fn find_session(read: &mut Read, token_hash: &Hash) -> Result<Option<FoundSession>, StoreError> {
    let now = read.clock().now();
    let row = read
        .fetch_optional(
            "SELECT id, user_id, token_hash, expires_at, last_used_at FROM user_sessions \
             WHERE token_hash = $1 AND expires_at > $2",
            args![*token_hash, now],
        )
        .await?;
    row.map(|row| {
        Ok(FoundSession {
            id: row.get("id")?,
            user_id: row.get("user_id")?,
            token_hash: row.get("token_hash")?,
            expires_at: row.get("expires_at")?,
            last_used_at: row.get("last_used_at")?,
        })
    })
    .transpose()
}

pub(crate) async fn delete_session(tx: &mut Tx, id: &str) -> Result<bool, StoreError> {
    Ok(tx.execute("DELETE FROM user_sessions WHERE id = $1", args![id]).await? == 1)
}

/// Every session that has not ended, the newest first. There is one account, so they are all its own.
pub(crate) async fn list_sessions(read: &mut Read) -> Result<Vec<UserSession>, StoreError> {
    let now = read.clock().now();
    let sql = "SELECT id, created_at, expires_at, last_used_at, user_agent, address FROM user_sessions \
               WHERE expires_at > $1 ORDER BY created_at DESC, id DESC";
    let rows = read.fetch_all(sql, args![now]).await?;
    let session = |row: &Row| {
        Ok(UserSession {
            id: row.get("id")?,
            created_at: row.get("created_at")?,
            expires_at: row.get("expires_at")?,
            last_used_at: row.get("last_used_at")?,
            user_agent: row.get("user_agent")?,
            address: row.get("address")?,
        })
    };
    rows.iter().map(session).collect()
}

/// Ends all sessions but one; answers how many ended.
pub(crate) async fn delete_other_sessions(tx: &mut Tx, kept: &str) -> Result<u64, StoreError> {
    let now = tx.clock().now();
    tx.execute("DELETE FROM user_sessions WHERE id <> $1 AND expires_at > $2", args![kept, now]).await
}

/// Ends a user's session by its token; answers which one it was.
pub(crate) async fn delete_session_of_token(
    tx: &mut Tx,
    user_id: &UserId,
    token_hash: &Hash,
) -> Result<Option<String>, StoreError> {
    let sql = "DELETE FROM user_sessions WHERE token_hash = $1 AND user_id = $2 RETURNING id";
    tx.fetch_optional(sql, args![*token_hash, user_id]).await?.map(|row| row.get("id")).transpose()
}

/// Notes a use, unless a use after `not_after` is known already.
pub(crate) async fn update_last_used(
    tx: &mut Tx,
    hash: &Hash,
    used_at: Timestamp,
    not_after: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE user_sessions SET last_used_at = $2 \
         WHERE token_hash = $1 AND (last_used_at IS NULL OR last_used_at <= $3)",
        args![*hash, used_at, not_after],
    )
    .await?;
    Ok(())
}

/// How many sessions have not expired.
pub(crate) async fn count_sessions(read: &mut Read) -> Result<i64, StoreError> {
    let now = read.clock().now();
    read.fetch_one("SELECT COUNT(*) AS sessions FROM user_sessions WHERE expires_at > $1", args![now])
        .await?
        .get("sessions")
}

/// When a session ends, if it has not.
pub(crate) async fn find_expiry(read: &mut Read, id: &str) -> Result<Option<Timestamp>, StoreError> {
    let row = read.fetch_optional("SELECT expires_at FROM user_sessions WHERE id = $1", args![id]).await?;
    row.map(|row| row.get("expires_at")).transpose()
}

pub(crate) async fn delete_expired(tx: &mut Tx, limit: u32) -> Result<u64, StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "DELETE FROM user_sessions WHERE id IN (SELECT id FROM user_sessions WHERE expires_at <= $1 \
         ORDER BY expires_at LIMIT $2)",
        args![now, limit],
    )
    .await
}
