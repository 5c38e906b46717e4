//! SQL of tickets. A ticket is valid for one connection.

use agentd_base::Timestamp;
use agentd_store::{Read, StoreError, Tx, args};
use agentd_web::{Caller, CallerKind};

use super::Hash;
use crate::auth::model::{TicketId, parse_scope, password_proof, scope_name};

pub(crate) async fn insert_ticket(
    tx: &mut Tx,
    id: &TicketId,
    ticket_hash: &Hash,
    caller: &Caller,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO auth_tickets (id, ticket_hash, credential_kind, credential_id, user_id, scope, expires_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        args![
            id,
            *ticket_hash,
            kind_name(caller.kind),
            &*caller.credential_id,
            caller.user_id.as_deref().map(str::to_owned),
            scope_name(caller.scope),
            expires_at
        ],
    )
    .await?;
    Ok(())
}

/// Whether the caller's credential is still valid.
pub(crate) async fn is_credential_valid(read: &mut Read, caller: &Caller) -> Result<bool, StoreError> {
    let now = read.clock().now();
    let row = match caller.kind {
        CallerKind::ApiKey => {
            let sql = "SELECT id FROM api_keys WHERE id = $1 AND revoked_at IS NULL";
            read.fetch_optional(sql, args![&*caller.credential_id]).await?
        }
        CallerKind::Session => {
            let sql = "SELECT id FROM user_sessions WHERE id = $1 AND expires_at > $2";
            read.fetch_optional(sql, args![&*caller.credential_id, now]).await?
        }
        CallerKind::Local => return Ok(true),
        CallerKind::Anonymous => return Ok(false),
    };
    Ok(row.is_some())
}

/// Counts the usable tickets of a credential.
pub(crate) async fn count_tickets(read: &mut Read, credential_id: &str) -> Result<i64, StoreError> {
    let now = read.clock().now();
    read.fetch_one(
        "SELECT COUNT(*) AS tickets FROM auth_tickets WHERE credential_id = $1 AND expires_at > $2",
        args![credential_id, now],
    )
    .await?
    .get("tickets")
}

/// Whether the ticket exists, valid or expired.
pub(crate) async fn has_ticket(read: &mut Read, ticket_hash: &Hash) -> Result<bool, StoreError> {
    let row = read.fetch_optional("SELECT id FROM auth_tickets WHERE ticket_hash = $1", args![*ticket_hash]).await?;
    Ok(row.is_some())
}

/// Consumes a ticket and returns its caller. Of concurrent requests with one ticket, only one gets the caller.
pub(crate) async fn take_ticket(tx: &mut Tx, ticket_hash: &Hash) -> Result<Option<Caller>, StoreError> {
    let now = tx.clock().now();
    let row = tx
        .fetch_optional(
            "DELETE FROM auth_tickets WHERE ticket_hash = $1 \
             RETURNING credential_kind, credential_id, user_id, scope, expires_at",
            args![*ticket_hash],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    if row.get::<Timestamp>("expires_at")? <= now {
        return Ok(None);
    }
    let (kind, credential_id) =
        (parse_kind(&row.get::<String>("credential_kind")?), row.get::<String>("credential_id")?);
    let page = match kind {
        CallerKind::Session => match super::sessions::find_page_state(tx, &credential_id).await? {
            Some(page) => page,
            None => return Ok(None),
        },
        _ => None,
    };
    Ok(Some(Caller {
        kind,
        credential_id: credential_id.into(),
        user_id: row.get("user_id")?,
        scope: parse_scope(&row.get::<String>("scope")?),
        password: password_proof(page.map(|page| page.reauthenticated_until), now),
    }))
}

/// Deletes the unused tickets of a credential.
pub(crate) async fn delete_tickets_of(tx: &mut Tx, credential_id: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM auth_tickets WHERE credential_id = $1", args![credential_id]).await?;
    Ok(())
}

/// Deletes the unused tickets of all sessions except one.
pub(crate) async fn delete_tickets_of_other_sessions(tx: &mut Tx, except_id: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM auth_tickets WHERE credential_kind = 'session' AND credential_id <> $1";
    tx.execute(sql, args![except_id]).await?;
    Ok(())
}

pub(crate) async fn delete_expired(tx: &mut Tx, limit: u32) -> Result<u64, StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "DELETE FROM auth_tickets WHERE id IN (SELECT id FROM auth_tickets WHERE expires_at <= $1 \
         ORDER BY expires_at LIMIT $2)",
        args![now, limit],
    )
    .await
}

fn kind_name(kind: CallerKind) -> &'static str {
    match kind {
        CallerKind::ApiKey => "api_key",
        CallerKind::Session => "session",
        CallerKind::Local | CallerKind::Anonymous => "local",
    }
}

fn parse_kind(name: &str) -> CallerKind {
    match name {
        "api_key" => CallerKind::ApiKey,
        "session" => CallerKind::Session,
        _ => CallerKind::Local,
    }
}
