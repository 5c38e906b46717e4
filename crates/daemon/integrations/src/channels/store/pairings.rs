//! Rows of pairing requests and approved senders.

use agentd_base::Timestamp;
use agentd_chat_platforms::{Platform, Sender};
use agentd_store::{Read, Row, StoreError, Tx, args};

use super::{json, platform};
use crate::channels::model::{ApprovedSender, Pairing};

fn sender(row: &Row) -> Result<Sender, StoreError> {
    Ok(Sender { id: row.get("sender_id")?, name: row.get("sender_name")? })
}

pub(super) fn pairing(row: &Row) -> Result<Pairing, StoreError> {
    Ok(Pairing {
        platform: platform(row)?,
        code: row.get("code")?,
        sender: sender(row)?,
        reply_to: row.json("reply_to")?,
        is_refused: row.get("is_refused")?,
        requested_at: row.get("requested_at")?,
        expires_at: row.get("expires_at")?,
    })
}

pub(super) const PAIRING: &str =
    "platform, code, sender_id, sender_name, reply_to, is_refused, requested_at, expires_at";

/// Returns the pairing of a sender or code, even if it expired.
pub(crate) async fn find_pairing(
    read: &mut Read,
    platform: Platform,
    sender: Option<&str>,
    code: Option<&str>,
) -> Result<Option<Pairing>, StoreError> {
    let sql = format!(
        "SELECT {PAIRING} FROM channel_pairings WHERE platform = $1 AND (sender_id = $2 OR code = $3) \
         ORDER BY requested_at DESC LIMIT 1"
    );
    let row = read.fetch_optional(sql, args![platform.id(), sender, code]).await?;
    row.as_ref().map(pairing).transpose()
}

/// Inserts a pairing; replaces an expired one of the same sender.
pub(crate) async fn insert_pairing(tx: &mut Tx, pairing: &Pairing) -> Result<(), StoreError> {
    delete_pairing(tx, pairing.platform, &pairing.sender.id).await?;
    tx.execute(
        "INSERT INTO channel_pairings (platform, code, sender_id, sender_name, reply_to, is_refused, \
         requested_at, expires_at) VALUES ($1, $2, $3, $4, $5, 0, $6, $7)",
        args![
            pairing.platform.id(),
            &pairing.code,
            &pairing.sender.id,
            &pairing.sender.name,
            json(&pairing.reply_to),
            pairing.requested_at,
            pairing.expires_at
        ],
    )
    .await
    .map(|_| ())
}

pub(crate) async fn delete_pairing(tx: &mut Tx, platform: Platform, sender: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM channel_pairings WHERE platform = $1 AND sender_id = $2";
    tx.execute(sql, args![platform.id(), sender]).await.map(|_| ())
}

pub(crate) async fn update_refused(tx: &mut Tx, platform: Platform, sender: &str) -> Result<(), StoreError> {
    let sql = "UPDATE channel_pairings SET is_refused = 1 WHERE platform = $1 AND sender_id = $2";
    tx.execute(sql, args![platform.id(), sender]).await.map(|_| ())
}

/// Counts the open pairings of a platform.
pub(crate) async fn count_pairings(read: &mut Read, platform: Platform, now: Timestamp) -> Result<u64, StoreError> {
    let sql = "SELECT COUNT(*) FROM channel_pairings WHERE platform = $1 AND expires_at > $2 AND is_refused = 0";
    read.fetch_one(sql, args![platform.id(), now]).await?.first()
}

/// Returns open pairings, newest first.
pub(crate) async fn list_pairings(read: &mut Read, now: Timestamp) -> Result<Vec<Pairing>, StoreError> {
    let sql = format!(
        "SELECT {PAIRING} FROM channel_pairings WHERE expires_at > $1 AND is_refused = 0 \
         ORDER BY requested_at DESC, platform, code"
    );
    read.fetch_all(sql, args![now]).await?.iter().map(pairing).collect()
}

/// Deletes the oldest open pairing of a platform.
pub(crate) async fn delete_oldest_pairing(tx: &mut Tx, of: Platform, now: Timestamp) -> Result<(), StoreError> {
    let sql = "DELETE FROM channel_pairings WHERE platform = $1 AND sender_id = (SELECT sender_id FROM channel_pairings \
               WHERE platform = $1 AND expires_at > $2 AND is_refused = 0 ORDER BY requested_at, sender_id LIMIT 1)";
    tx.execute(sql, args![of.id(), now]).await.map(|_| ())
}

pub(crate) async fn delete_expired_pairings(tx: &mut Tx, now: Timestamp) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM channel_pairings WHERE expires_at <= $1", args![now]).await
}

/// Returns whether a sender is approved.
pub(crate) async fn find_sender(read: &mut Read, platform: Platform, sender: &str) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM channel_senders WHERE platform = $1 AND sender_id = $2";
    Ok(read.fetch_optional(sql, args![platform.id(), sender]).await?.is_some())
}

pub(crate) async fn insert_sender(
    tx: &mut Tx,
    platform: Platform,
    sender: &Sender,
    is_owner: bool,
) -> Result<ApprovedSender, StoreError> {
    let now = tx.clock().now();
    let sql = "INSERT INTO channel_senders (platform, sender_id, sender_name, approved_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (platform, sender_id) DO UPDATE SET sender_name = excluded.sender_name";
    tx.execute(sql, args![platform.id(), &sender.id, &sender.name, now]).await?;
    Ok(ApprovedSender { platform, sender: sender.clone(), approved_at: now, is_owner })
}

/// Returns approved senders, the first approved one first.
pub(crate) async fn list_senders(
    read: &mut Read,
    of: Platform,
    owner: Option<&str>,
) -> Result<Vec<ApprovedSender>, StoreError> {
    let sql = "SELECT platform, sender_id, sender_name, approved_at FROM channel_senders WHERE platform = $1 \
               ORDER BY approved_at, sender_id";
    let approved = |row: &Row| {
        let sender = sender(row)?;
        let is_owner = owner == Some(sender.id.as_str());
        Ok(ApprovedSender { platform: platform(row)?, sender, approved_at: row.get("approved_at")?, is_owner })
    };
    read.fetch_all(sql, args![of.id()]).await?.iter().map(approved).collect()
}

/// Returns whether the platform has an approved sender.
pub(crate) async fn has_senders(read: &mut Read, of: Platform) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM channel_senders WHERE platform = $1 LIMIT 1";
    Ok(read.fetch_optional(sql, args![of.id()]).await?.is_some())
}

/// Deletes an approved sender; returns whether it existed.
pub(crate) async fn delete_sender(tx: &mut Tx, platform: Platform, sender: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM channel_senders WHERE platform = $1 AND sender_id = $2";
    Ok(tx.execute(sql, args![platform.id(), sender]).await? == 1)
}
