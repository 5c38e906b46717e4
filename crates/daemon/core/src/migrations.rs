//! Database schema of the daemon: the store's own tables and those of every domain.
//!
//! A released migration is never changed. A schema change is a new migration, which also upgrades databases and
//! archives of earlier releases.

use agentd_store::{Migration, OWN_MIGRATIONS};

const STORE: Migration = OWN_MIGRATIONS[0];

macro_rules! migration {
    ($version:literal, $name:literal, $file:literal) => {
        Migration {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../migrations/sqlite/", $file, ".sql")),
            postgres: include_str!(concat!("../migrations/postgres/", $file, ".sql")),
        }
    };
}

/// All migrations, numbered from 1 without a gap. The first two are the schema of 0.1.0.
pub const MIGRATIONS: &[Migration] = &[STORE, migration!(2, "daemon", "0002_daemon")];
