//! Read-only inspection of a database for diagnosis: no migration, no lock, no write.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use agentd_base::Timestamp;
use rusqlite::OpenFlags;
use rustix::fs::{FlockOperation, flock};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection as _};

use crate::db::DatabaseUrl;
use crate::{StoreError, postgres};

/// Time limit after which the server counts as unavailable.
const TIME_LIMIT: Duration = Duration::from_secs(10);

const NEWEST: &str = "SELECT MAX(version), MAX(applied_at) FROM schema_migrations";
const INFO: &str = "SELECT name, value FROM store_info";

/// Result of an inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Name and version of the engine.
    pub engine: String,
    /// Schema version; 0 if never migrated.
    pub schema_version: u32,
    /// Time of the last migration.
    pub migrated_at: Option<Timestamp>,
    /// Contents of the table `store_info`, by name.
    pub info: BTreeMap<String, String>,
    /// Problems found by SQLite's `quick_check`, at most ten.
    pub damage: Vec<String>,
}

/// Inspects the database; returns `None` if it does not exist yet.
///
/// # Errors
/// The database cannot be reached or read.
pub async fn inspect(url: &DatabaseUrl) -> Result<Option<Inspection>, StoreError> {
    match url {
        DatabaseUrl::Sqlite { path } if !path.exists() => Ok(None),
        DatabaseUrl::Sqlite { path } => {
            let path = path.clone();
            // Reads the whole file.
            tokio::task::spawn_blocking(move || inspect_sqlite(&path)).await.map_err(|_| StoreError::Closed)?.map(Some)
        }
        DatabaseUrl::Postgres(address) => {
            let options = PgConnectOptions::from_str(address.expose()).map_err(|_| StoreError::InvalidUrl {
                reason: "it must have the form postgres://user:password@host:5432/database".to_owned(),
            })?;
            let looking = inspect_postgres(options.disable_statement_logging());
            tokio::time::timeout(TIME_LIMIT, looking).await.unwrap_or_else(|_| {
                Err(StoreError::Unavailable { reason: "the server does not respond".to_owned(), source: None })
            })
        }
    }
}

/// Returns the process that holds the lock of the data directory, if any; 0 if its id is unknown.
#[must_use]
pub fn lock_holder(data_dir: &Path) -> Option<u32> {
    let mut file = File::open(data_dir.join("agentd.lock")).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            Some(file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0))
        }
        _ => None,
    }
}

fn inspect_sqlite(path: &Path) -> Result<Inspection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(TIME_LIMIT)?;
    let engine: String = connection.query_row("SELECT sqlite_version()", [], |row| row.get(0))?;
    let mut check = connection.prepare("PRAGMA quick_check(10)")?;
    let damage = check.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let is_migrated = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'schema_migrations'";
    let is_migrated: i64 = connection.query_row(is_migrated, [], |row| row.get(0))?;
    let ((version, at), info) = if is_migrated > 0 {
        let newest = connection.query_row(NEWEST, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut info = connection.prepare(INFO)?;
        let info = info.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<Vec<_>, _>>()?;
        (newest, info)
    } else {
        ((None, None), Vec::new())
    };
    let damage = damage.into_iter().filter(|line| line != "ok").collect();
    Ok(inspection(format!("SQLite {engine}"), version, at, info, damage))
}

async fn inspect_postgres(options: PgConnectOptions) -> Result<Option<Inspection>, StoreError> {
    let mut connection = postgres::connect(&options, postgres::Limits::default()).await?;
    let engine: String = sqlx::query_scalar("SHOW server_version").fetch_one(&mut connection).await?;
    let is_migrated: bool =
        sqlx::query_scalar("SELECT to_regclass('schema_migrations') IS NOT NULL").fetch_one(&mut connection).await?;
    let ((version, at), info) = if is_migrated {
        let newest = sqlx::query_as(NEWEST).fetch_one(&mut connection).await?;
        (newest, sqlx::query_as(INFO).fetch_all(&mut connection).await?)
    } else {
        ((None, None), Vec::new())
    };
    connection.close().await?;
    Ok(Some(inspection(format!("PostgreSQL {engine}"), version, at, info, Vec::new())))
}

fn inspection(
    engine: String,
    version: Option<i64>,
    at: Option<i64>,
    info: Vec<(String, String)>,
    damage: Vec<String>,
) -> Inspection {
    Inspection {
        engine,
        schema_version: version.and_then(|version| u32::try_from(version).ok()).unwrap_or(0),
        migrated_at: at.map(Timestamp::from_micros),
        info: info.into_iter().collect(),
        damage,
    }
}
