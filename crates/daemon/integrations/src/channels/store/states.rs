//! Last known state of each platform.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_chat_platforms::Platform;
use agentd_core::lease::{self, HeldRow};
use agentd_store::{Read, StoreError, Tx, args};

use super::platform;

/// Maximum length of a stored error.
const MAX_ERROR_CHARACTERS: usize = 500;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChannelState {
    pub(crate) last_received_at: Option<Timestamp>,
    pub(crate) last_error: Option<String>,
}

pub(crate) async fn list_states(read: &mut Read) -> Result<BTreeMap<Platform, ChannelState>, StoreError> {
    let rows = read.fetch_all("SELECT platform, last_received_at, last_error FROM channel_states", args![]).await?;
    rows.iter()
        .map(|row| {
            let state =
                ChannelState { last_received_at: row.get("last_received_at")?, last_error: row.get("last_error")? };
            Ok((platform(row)?, state))
        })
        .collect()
}

/// Stored state of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredConnection {
    /// Position from which the connection resumes.
    pub(crate) resume: Option<String>,
    pub(crate) is_connected: bool,
}

fn lease_name(platform: Platform) -> String {
    format!("channels.{}", platform.id())
}

/// Acquires the lease of a connection for `length`, or renews the lease `held`. Returns the lease and the stored
/// connection; `None` while another daemon holds it.
pub(crate) async fn claim_connection(
    tx: &mut Tx,
    platform: Platform,
    owner: &str,
    held: Option<&HeldRow>,
    length: Duration,
) -> Result<Option<(HeldRow, StoredConnection)>, StoreError> {
    let Some(held) = lease::acquire(tx, &lease_name(platform), owner, held, length).await? else { return Ok(None) };
    let sql = "SELECT resume, is_connected FROM channel_connections WHERE platform = $1";
    let kept = match tx.fetch_optional(sql, args![platform.id()]).await? {
        Some(row) => StoredConnection { resume: row.get("resume")?, is_connected: row.get("is_connected")? },
        None => StoredConnection::default(),
    };
    Ok(Some((held, kept)))
}

/// Stores the state of a connection that this daemon holds.
pub(crate) async fn put_connection(tx: &mut Tx, platform: Platform, kept: &StoredConnection) -> Result<(), StoreError> {
    let sql = "INSERT INTO channel_connections (platform, resume, is_connected) VALUES ($1, $2, $3) \
               ON CONFLICT (platform) DO UPDATE SET resume = excluded.resume, is_connected = excluded.is_connected";
    tx.execute(sql, args![platform.id(), &kept.resume, kept.is_connected]).await.map(|_| ())
}

/// Releases a connection, so that another daemon can resume it from `resume`.
///
/// # Errors
/// `StoreError::LostLease` if another daemon has taken over, or the database fails.
pub(crate) async fn release_connection(
    tx: &mut Tx,
    platform: Platform,
    held: &HeldRow,
    resume: Option<String>,
) -> Result<(), StoreError> {
    lease::release(tx, held).await?;
    put_connection(tx, platform, &StoredConnection { resume, is_connected: false }).await
}

/// Returns the platforms with an open connection of any daemon.
pub(crate) async fn list_connected(read: &mut Read, now: Timestamp) -> Result<BTreeSet<Platform>, StoreError> {
    let sql = "SELECT platform FROM channel_connections \
               JOIN leases ON leases.name = 'channels.' || channel_connections.platform \
               WHERE is_connected = 1 AND leases.lease_until > $1";
    read.fetch_all(sql, args![now]).await?.iter().map(platform).collect()
}

pub(crate) async fn record_received(tx: &mut Tx, platform: Platform) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "INSERT INTO channel_states (platform, last_received_at) VALUES ($1, $2) \
               ON CONFLICT (platform) DO UPDATE SET last_received_at = excluded.last_received_at";
    tx.execute(sql, args![platform.id(), now]).await.map(|_| ())
}

/// Records that a platform's codes are used up. Returns whether that was last recorded at least `interval` ago.
pub(crate) async fn record_pairing_limit(
    tx: &mut Tx,
    platform: Platform,
    interval: Duration,
) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    // A time in the future comes from a clock that was set back since.
    let sql = "INSERT INTO channel_states (platform, pairing_limit_noted_at) VALUES ($1, $2) \
               ON CONFLICT (platform) DO UPDATE SET pairing_limit_noted_at = excluded.pairing_limit_noted_at \
               WHERE channel_states.pairing_limit_noted_at IS NULL OR channel_states.pairing_limit_noted_at <= $3 \
               OR channel_states.pairing_limit_noted_at > $2";
    Ok(tx.execute(sql, args![platform.id(), now, now - interval]).await? == 1)
}

/// Records the last error; `None` clears it.
pub(crate) async fn record_error(tx: &mut Tx, platform: Platform, error: Option<&str>) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let error: Option<String> = error.map(|error| error.chars().take(MAX_ERROR_CHARACTERS).collect());
    let sql = "INSERT INTO channel_states (platform, last_error, last_error_at) VALUES ($1, $2, $3) \
               ON CONFLICT (platform) DO UPDATE SET last_error = excluded.last_error, \
               last_error_at = excluded.last_error_at";
    tx.execute(sql, args![platform.id(), error, now]).await.map(|_| ())
}
