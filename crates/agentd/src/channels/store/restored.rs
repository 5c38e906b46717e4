//! Rows that a restore brought.

use agentd_store::{Read, StoreError, Tx, args};

use super::pairings::{PAIRING, pairing};
use super::{COLUMNS, message, platform};

const A_BATCH: u32 = 200;

/// Those who held connections worked for another state of the database.
pub(in crate::channels) async fn delete_connections(tx: &mut Tx) -> Result<(), StoreError> {
    tx.execute("DELETE FROM channel_connections", args![]).await.map(|_| ())
}

/// Reads every row as it is read when it is used.
///
/// # Errors
/// `Column` for one that cannot be.
pub(in crate::channels) async fn read_all(read: &mut Read) -> Result<(), StoreError> {
    for table in ["channel_conversations", "channel_senders", "channel_states", "channel_owners", "channel_approvals"] {
        let rows = read.fetch_all(format!("SELECT DISTINCT platform FROM {table}"), args![]).await?;
        rows.iter().try_for_each(|row| platform(row).map(drop))?;
    }
    let (mut of, mut sender) = (String::new(), String::new());
    loop {
        let sql = format!(
            "SELECT {PAIRING} FROM channel_pairings WHERE (platform, sender_id) > ($1, $2) \
             ORDER BY platform, sender_id LIMIT $3"
        );
        let rows = read.fetch_all(sql, args![of, sender, A_BATCH]).await?;
        let Some(last) = rows.last() else { break };
        rows.iter().try_for_each(|row| pairing(row).map(drop))?;
        (of, sender) = (last.get("platform")?, last.get("sender_id")?);
    }
    let mut id = String::new();
    loop {
        let sql = format!("SELECT {COLUMNS} FROM channel_messages WHERE id > $1 ORDER BY id LIMIT $2");
        let rows = read.fetch_all(sql, args![id, A_BATCH]).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        rows.iter().try_for_each(|row| message(row).map(drop))?;
        id = last.get("id")?;
    }
}
