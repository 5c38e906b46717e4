//! The steps that the schema consists of.

use crate::StoreError;

/// One step of the schema, in both dialects. Versions count up from 1 without a gap.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    pub version: u32,
    pub name: &'static str,
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

/// The tables of the store itself, which the list of every program that uses it begins with.
pub const OWN_MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "store",
    sqlite: include_str!("../migrations/sqlite/0001_store.sql"),
    postgres: include_str!("../migrations/postgres/0001_store.sql"),
}];

/// The steps that a database at version `from` still needs.
pub(crate) fn pending(from: u32, migrations: &'static [Migration]) -> Result<&'static [Migration], StoreError> {
    let known = migrations.last().map_or(0, |last| last.version);
    if from > known {
        return Err(StoreError::NewerSchema { found: from, known });
    }
    Ok(migrations.get(migrations.partition_point(|step| step.version <= from)..).unwrap_or_default())
}
