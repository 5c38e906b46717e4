//! Which built-in tools are switched off.

use std::collections::BTreeSet;

use agentd_store::{Read, StoreError, Topic, Tx, args};

/// Which built-in tools are on.
pub(super) const BUILTIN_TOOLS: Topic = Topic::new("skills.builtin");

pub(crate) async fn list_switched_off(read: &mut Read) -> Result<BTreeSet<String>, StoreError> {
    let rows = read.fetch_all("SELECT name FROM builtin_tools_off", args![]).await?;
    rows.iter().map(|row| row.get("name")).collect()
}

/// Answers whether the tool was off.
pub(crate) async fn switch_on(tx: &mut Tx, name: &str) -> Result<bool, StoreError> {
    tx.touch(BUILTIN_TOOLS);
    Ok(tx.execute("DELETE FROM builtin_tools_off WHERE name = $1", args![name]).await? > 0)
}

pub(crate) async fn switch_off(tx: &mut Tx, name: &str) -> Result<(), StoreError> {
    tx.touch(BUILTIN_TOOLS);
    let sql = "INSERT INTO builtin_tools_off (name) VALUES ($1) ON CONFLICT (name) DO NOTHING";
    tx.execute(sql, args![name]).await.map(|_| ())
}
