//! Rows with the times at which settings of memory were turned on and off.

use agentd_base::Timestamp;
use agentd_store::{Read, StoreError, Tx, args};

/// Setting whose times are recorded: enabled from `on_since` until `off_since`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Toggle {
    /// Episodes are stored automatically.
    AutoStore,
    /// Memory is enabled.
    Enabled,
}

impl Toggle {
    const fn name(self) -> &'static str {
        match self {
            Self::AutoStore => "auto_store",
            Self::Enabled => "enabled",
        }
    }
}

/// Returns the last recorded state and since when it is on. A setting that was never recorded has always been on.
pub(crate) async fn find_state(read: &mut Read, toggle: Toggle) -> Result<(bool, Timestamp), StoreError> {
    let sql = "SELECT on_since, off_since FROM memory_toggles WHERE name = $1";
    match read.fetch_optional(sql, args![toggle.name()]).await? {
        None => Ok((true, Timestamp::from_micros(0))),
        Some(row) => Ok((row.get::<Option<Timestamp>>("off_since")?.is_none(), row.get("on_since")?)),
    }
}

/// Records that a setting is on or off from now on; an unchanged state keeps its times.
pub(crate) async fn set_toggle(tx: &mut Tx, toggle: Toggle, is_on: bool) -> Result<(), StoreError> {
    let sql = if is_on {
        "UPDATE memory_toggles SET on_since = $2, off_since = NULL WHERE name = $1 AND off_since IS NOT NULL"
    } else {
        "INSERT INTO memory_toggles (name, on_since, off_since) VALUES ($1, 0, $2) ON CONFLICT (name) \
         DO UPDATE SET off_since = COALESCE(memory_toggles.off_since, excluded.off_since)"
    };
    let now = tx.clock().now();
    tx.execute(sql, args![toggle.name(), now]).await.map(|_| ())
}

/// Records that memory was emptied; messages from before are not processed again.
pub(crate) async fn record_emptied(tx: &mut Tx) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let sql = "INSERT INTO memory_toggles (name, on_since) VALUES ($1, $2) \
               ON CONFLICT (name) DO UPDATE SET on_since = excluded.on_since";
    tx.execute(sql, args![Toggle::Enabled.name(), now]).await.map(|_| ())
}
