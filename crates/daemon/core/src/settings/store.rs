//! SQL of settings.

use std::collections::{BTreeMap, BTreeSet};

use agentd_store::{Read, StoreError, Topic, Tx, args};
use serde_json::Value;

/// Topic that changes with any stored setting.
pub(super) const SETTINGS: Topic = Topic::new("settings");

pub(super) async fn list_sections(read: &mut Read) -> Result<BTreeMap<String, Value>, StoreError> {
    let rows = read.fetch_all("SELECT section, value FROM settings", args![]).await?;
    rows.iter().map(|row| Ok((row.get("section")?, row.json("value")?))).collect()
}

pub(super) async fn find_section(read: &mut Read, section: &str) -> Result<Option<Value>, StoreError> {
    let row = read.fetch_optional("SELECT value FROM settings WHERE section = $1", args![section]).await?;
    row.map(|row| row.json("value")).transpose()
}

pub(super) async fn upsert_section(tx: &mut Tx, section: &str, value: &Value) -> Result<(), StoreError> {
    let now = tx.clock().now();
    tx.execute(
        "INSERT INTO settings (section, value, updated_at) VALUES ($1, $2, $3) \
         ON CONFLICT (section) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
        args![section, value.to_string(), now],
    )
    .await?;
    tx.touch(SETTINGS);
    Ok(())
}

pub(super) async fn delete_section(tx: &mut Tx, section: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM settings WHERE section = $1", args![section]).await?;
    tx.touch(SETTINGS);
    Ok(())
}

/// Lists scope and name of all write-only fields with a stored value.
pub(super) async fn list_set_fields(read: &mut Read) -> Result<BTreeSet<(String, String)>, StoreError> {
    let rows = read.fetch_all("SELECT scope, name FROM secrets WHERE scope LIKE 'settings.%'", args![]).await?;
    rows.iter().map(|row| Ok((row.get("scope")?, row.get("name")?))).collect()
}
