//! Schema migrations.

use crate::StoreError;

/// Schema migration in both dialects. Versions start at 1 without gaps.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    pub version: u32,
    pub name: &'static str,
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

/// Tables of the store itself: the first entries of every program's list of migrations.
pub const OWN_MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "store",
    sqlite: include_str!("../migrations/sqlite/0001_store.sql"),
    postgres: include_str!("../migrations/postgres/0001_store.sql"),
}];

/// Returns the migrations that a database at version `from` still needs.
pub(crate) fn pending(from: u32, migrations: &'static [Migration]) -> Result<&'static [Migration], StoreError> {
    let known = migrations.last().map_or(0, |last| last.version);
    if from > known {
        return Err(StoreError::NewerSchema { found: from, known });
    }
    Ok(migrations.get(migrations.partition_point(|step| step.version <= from)..).unwrap_or_default())
}
