//! Rows of disabled built-in tools.

use std::collections::BTreeSet;

use agentd_store::{Read, StoreError, Topic, Tx, args};

/// Topic for changes to the disabled tools.
pub(super) const BUILTIN_TOOLS: Topic = Topic::new("skills.builtin");

pub(crate) async fn list_disabled_tools(read: &mut Read) -> Result<BTreeSet<String>, StoreError> {
    let rows = read.fetch_all("SELECT name FROM builtin_tools_off", args![]).await?;
    rows.iter().map(|row| row.get("name")).collect()
}

/// Enables a tool; returns whether it was disabled.
pub(crate) async fn enable(tx: &mut Tx, name: &str) -> Result<bool, StoreError> {
    tx.touch(BUILTIN_TOOLS);
    Ok(tx.execute("DELETE FROM builtin_tools_off WHERE name = $1", args![name]).await? > 0)
}

pub(crate) async fn disable(tx: &mut Tx, name: &str) -> Result<(), StoreError> {
    tx.touch(BUILTIN_TOOLS);
    let sql = "INSERT INTO builtin_tools_off (name) VALUES ($1) ON CONFLICT (name) DO NOTHING";
    tx.execute(sql, args![name]).await.map(|_| ())
}
