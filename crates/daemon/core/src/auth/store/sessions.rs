//! SQL of login sessions.

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Tx, args};

use super::Hash;
use crate::auth::model::{LoggedIn, LoginOrigin, UserAgent, UserId, UserSession, UserSessionId};

/// Session with its hashes.
#[derive(Debug, Clone)]
pub(crate) struct FoundSession {
    pub(crate) id: UserSessionId,
    pub(crate) user_id: UserId,
    pub(crate) token_hash: Hash,
    pub(crate) expires_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
    /// State of a page session; `None` for other sessions.
    pub(crate) page: Option<PageState>,
}

/// Additional state of a page session.
#[derive(Debug, Clone)]
pub(crate) struct PageState {
    pub(crate) secret_hash: Hash,
    pub(crate) reauthenticated_until: Option<Timestamp>,
}

impl PageState {
    fn from_row(row: &Row) -> Result<Option<Self>, StoreError> {
        let Some(secret_hash) = row.get("page_secret_hash")? else { return Ok(None) };
        Ok(Some(Self { secret_hash, reauthenticated_until: row.get("reauthenticated_until")? }))
    }
}

const COLUMNS: &str =
    "id, user_id, token_hash, expires_at, last_used_at, page_secret_hash, reauthenticated_until FROM user_sessions";

pub(crate) async fn insert_session(
    tx: &mut Tx,
    logged_in: &LoggedIn,
    expires_at: Timestamp,
    origin: &LoginOrigin,
) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let (token_hash, page_secret_hash) =
        (logged_in.token.sha256(), logged_in.page_secret.as_ref().map(|secret| secret.sha256().to_vec()));
    let user_agent = origin.user_agent.as_ref().map(|agent| UserAgent::as_str(agent).to_owned());
    let address = origin.address.map(|address| address.to_canonical().to_string());
    tx.execute(
        "INSERT INTO user_sessions \
         (id, user_id, token_hash, created_at, expires_at, user_agent, address, page_secret_hash) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        args![
            &logged_in.session,
            &logged_in.user.id,
            token_hash,
            now,
            expires_at,
            user_agent,
            address,
            page_secret_hash
        ],
    )
    .await?;
    Ok(())
}

/// Deletes all but the newest `keep` sessions of a user. Returns the number of deleted sessions.
pub(crate) async fn trim_sessions(tx: &mut Tx, user_id: &UserId, keep: u32) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM user_sessions WHERE id IN (SELECT id FROM user_sessions WHERE user_id = $1 \
         ORDER BY created_at DESC, id DESC LIMIT 100 OFFSET $2)",
        args![user_id, keep],
    )
    .await
}

/// Finds the session of a Bearer token. Page sessions have no Bearer token.
pub(crate) async fn find_session(read: &mut Read, token_hash: &Hash) -> Result<Option<FoundSession>, StoreError> {
    let condition = "token_hash = $1 AND page_secret_hash IS NULL";
    find_by(read, condition, token_hash).await
}

/// Finds the page session of a page secret.
pub(crate) async fn find_page_session(read: &mut Read, secret_hash: &Hash) -> Result<Option<FoundSession>, StoreError> {
    find_by(read, "page_secret_hash = $1", secret_hash).await
}

async fn find_by(read: &mut Read, condition: &str, hash: &Hash) -> Result<Option<FoundSession>, StoreError> {
    let now = read.clock().now();
    let sql = format!("SELECT {COLUMNS} WHERE {condition} AND expires_at > $2");
    let row = read.fetch_optional(sql, args![*hash, now]).await?;
    row.map(|row| {
        Ok(FoundSession {
            id: row.get("id")?,
            user_id: row.get("user_id")?,
            token_hash: row.get("token_hash")?,
            expires_at: row.get("expires_at")?,
            last_used_at: row.get("last_used_at")?,
            page: PageState::from_row(&row)?,
        })
    })
    .transpose()
}

/// Returns the page state of an active session; the outer `None` if the session has ended.
pub(crate) async fn find_page_state(read: &mut Read, id: &str) -> Result<Option<Option<PageState>>, StoreError> {
    let now = read.clock().now();
    let sql = format!("SELECT {COLUMNS} WHERE id = $1 AND expires_at > $2");
    read.fetch_optional(sql, args![id, now]).await?.as_ref().map(PageState::from_row).transpose()
}

/// Stores the time until which the password of a page session counts as recent; `false` if the session has ended.
pub(crate) async fn update_reauthenticated(tx: &mut Tx, id: &str, until: Timestamp) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let sql = "UPDATE user_sessions SET reauthenticated_until = $2 \
               WHERE id = $1 AND page_secret_hash IS NOT NULL AND expires_at > $3";
    Ok(tx.execute(sql, args![id, until, now]).await? == 1)
}

pub(crate) async fn delete_session(tx: &mut Tx, id: &str) -> Result<bool, StoreError> {
    Ok(tx.execute("DELETE FROM user_sessions WHERE id = $1", args![id]).await? == 1)
}

/// Lists active sessions, newest first. All of them belong to the only account.
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

/// Deletes all active sessions except one. Returns the number of deleted sessions.
pub(crate) async fn delete_other_sessions(tx: &mut Tx, except_id: &str) -> Result<u64, StoreError> {
    let now = tx.clock().now();
    tx.execute("DELETE FROM user_sessions WHERE id <> $1 AND expires_at > $2", args![except_id, now]).await
}

/// Deletes a user's session by its token. Returns the id of the session.
pub(crate) async fn delete_session_of_token(
    tx: &mut Tx,
    user_id: &UserId,
    token_hash: &Hash,
) -> Result<Option<String>, StoreError> {
    let sql = "DELETE FROM user_sessions WHERE token_hash = $1 AND user_id = $2 RETURNING id";
    tx.fetch_optional(sql, args![*token_hash, user_id]).await?.map(|row| row.get("id")).transpose()
}

/// Stores a use, unless a use after `not_after` is stored.
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

/// Counts active sessions.
pub(crate) async fn count_sessions(read: &mut Read) -> Result<i64, StoreError> {
    let now = read.clock().now();
    read.fetch_one("SELECT COUNT(*) AS sessions FROM user_sessions WHERE expires_at > $1", args![now])
        .await?
        .get("sessions")
}

/// Returns the expiry time of a session.
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
