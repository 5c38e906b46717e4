//! Validates rows after a restore: rows with an unknown platform or without an address for replies are rejected, and
//! connections start again.

use agentd_core::runtime::ValidateRestored;
use agentd_store::{Read, StoreError, Tx, args};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::pairings::{PAIRING, pairing};
use super::{COLUMNS, message, platform};

const BATCH_SIZE: u32 = 200;

/// Validates restored rows of channels by reading them, and drops the leases of connections.
#[derive(Debug)]
pub struct ValidateChannels;

impl ValidateRestored for ValidateChannels {
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        find_fault(tx).boxed_local()
    }
}

async fn find_fault(tx: &mut Tx) -> Result<Option<String>, StoreError> {
    delete_connections(tx).await?;
    match read_all(tx).await {
        Ok(()) => Ok(None),
        Err(StoreError::Column { column, source }) => {
            Ok(Some(format!("failed to read {column} of a chat platform row: {source}")))
        }
        Err(error) => Err(error),
    }
}

/// Stored connections belong to another state of the database.
async fn delete_connections(tx: &mut Tx) -> Result<(), StoreError> {
    tx.execute("DELETE FROM channel_connections", args![]).await.map(|_| ())
}

/// Reads every row like regular queries do.
///
/// # Errors
/// `Column` for an invalid row.
async fn read_all(read: &mut Read) -> Result<(), StoreError> {
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
        let rows = read.fetch_all(sql, args![of, sender, BATCH_SIZE]).await?;
        let Some(last) = rows.last() else { break };
        rows.iter().try_for_each(|row| pairing(row).map(drop))?;
        (of, sender) = (last.get("platform")?, last.get("sender_id")?);
    }
    let mut id = String::new();
    loop {
        let sql = format!("SELECT {COLUMNS} FROM channel_messages WHERE id > $1 ORDER BY id LIMIT $2");
        let rows = read.fetch_all(sql, args![id, BATCH_SIZE]).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        rows.iter().try_for_each(|row| message(row).map(drop))?;
        id = last.get("id")?;
    }
}
