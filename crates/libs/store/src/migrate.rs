//! Migrations: numbered scripts, one per dialect for each step, run once and in order.
//!
//! A start without pending steps costs one query. A new database runs all steps in one transaction, which needs one
//! sync and writes each page once. An existing database runs each step in its own transaction, which bounds the log and
//! the locks, and resumes where it was interrupted. Before the first step it is copied to `backups/`. Scripts must not
//! declare deferred constraints: they would fail at the commit, which many closures share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dialect::Dialect;
use crate::dump::catalog::schema_version;
use crate::dump::write::write;
use crate::lock::create_private_folder;
use crate::read::Read;
use crate::schema::{Migration, pending};
use crate::{StoreError, args};

const OLDEST_SQLITE: [u32; 3] = [3, 51, 3];

/// Migrates an SQLite file.
pub(crate) async fn sqlite(read: &mut Read) -> Result<(), StoreError> {
    let row = match read
        .fetch_one("SELECT MAX(version) AS version, sqlite_version() AS engine FROM schema_migrations", args![])
        .await
    {
        Ok(row) => row,
        Err(StoreError::NoTable { .. }) => {
            read.fetch_one("SELECT NULL AS version, sqlite_version() AS engine", args![]).await?
        }
        Err(error) => return Err(error),
    };
    let engine: String = row.get("engine")?;
    if !is_new_enough(&engine) {
        return Err(StoreError::OldSqlite { found: engine });
    }
    let from = row.get::<Option<u32>>("version")?.unwrap_or(0);
    let pending = pending(from, read.shared.migrations)?;
    let Some(last) = pending.last() else { return Ok(()) };
    if from > 0 && !read.shared.is_scratch {
        let path = backup_path(read, from, last.version, "db")?;
        let partial = path.with_extension("partial");
        drop(std::fs::remove_file(&partial));
        tracing::info!(path = %path.display(), "backing up the database before migration");
        read.run("VACUUM INTO $1".into(), args![partial.to_string_lossy().into_owned()]).await?;
        std::fs::rename(&partial, &path).map_err(|e| StoreError::io("renaming", &partial, e))?;
    }
    // Scripts that rebuild a table need foreign keys off: <https://sqlite.org/lang_altertable.html>.
    read.script("PRAGMA foreign_keys = OFF").await?;
    let result = run_all(read, from, pending).await;
    read.script("PRAGMA foreign_keys = ON").await?;
    result
}

/// Migrates a PostgreSQL schema. The caller holds the lock that excludes other replicas.
pub(crate) async fn postgres(read: &mut Read) -> Result<(), StoreError> {
    let from = schema_version(read).await?;
    let pending = pending(from, read.shared.migrations)?;
    if from > 0
        && let Some(last) = pending.last()
    {
        let path = backup_path(read, from, last.version, "jsonl")?;
        tracing::info!(path = %path.display(), "backing up the database before migration");
        read.script("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
        let written = write_backup(read, &path).await;
        read.script("ROLLBACK").await?;
        written?;
    }
    run_all(read, from, pending).await
}

async fn write_backup(read: &mut Read, path: &Path) -> Result<(), StoreError> {
    let partial = path.with_extension("partial");
    let failed = |e| StoreError::io("writing", &partial, e);
    let mut file = tokio::fs::File::create(&partial).await.map_err(failed)?;
    write(read, &mut file, &[]).await?;
    file.sync_all().await.map_err(failed)?;
    std::fs::rename(&partial, path).map_err(|e| StoreError::io("renaming", &partial, e))
}

fn backup_path(read: &Read, from: u32, to: u32, extension: &str) -> Result<PathBuf, StoreError> {
    let folder = read.shared.data_dir.join("backups");
    create_private_folder(&folder)?;
    let time = read.clock().now().to_string().replace([':', '.'], "-");
    Ok(folder.join(format!("before-migration-{from}-to-{to}-{time}.{extension}")))
}

async fn run_all(read: &mut Read, from: u32, pending: &'static [Migration]) -> Result<(), StoreError> {
    let steps_per_transaction = if from == 0 { pending.len() } else { 1 };
    for steps in pending.chunks(steps_per_transaction.max(1)) {
        let result = run(read, steps).await;
        if result.is_err() {
            let _ = read.script("ROLLBACK").await;
        }
        result?;
    }
    Ok(())
}

/// Runs steps in one transaction.
async fn run(read: &mut Read, steps: &'static [Migration]) -> Result<(), StoreError> {
    let Some(last) = steps.last() else { return Ok(()) };
    let dialect = read.dialect();
    read.script(dialect.pick("BEGIN IMMEDIATE", "BEGIN")).await.map_err(|e| failed(last, e))?;
    for step in steps {
        tracing::info!(version = step.version, name = step.name, "applying migration");
        read.script(dialect.pick(step.sqlite, step.postgres)).await.map_err(|e| failed(step, e))?;
        let now = read.clock().now();
        read.run(
            "INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, $3)".into(),
            args![step.version, step.name, now],
        )
        .await?;
        if step.version == 1 {
            let id = read.ids().next_ulid();
            read.run("INSERT INTO store_info (name, value) VALUES ('database_id', $1)".into(), args![id]).await?;
        }
    }
    if dialect == Dialect::Sqlite
        && let Some(row) = read.fetch_optional("PRAGMA foreign_key_check", args![]).await?
    {
        let table = row.get("table")?;
        return Err(StoreError::MigrationForeignKeys { version: last.version, name: last.name.to_owned(), table });
    }
    read.script("COMMIT").await.map_err(|e| failed(last, e))
}

fn failed(step: &Migration, source: StoreError) -> StoreError {
    StoreError::Migration { version: step.version, name: step.name.to_owned(), source: Arc::new(source) }
}

fn is_new_enough(engine: &str) -> bool {
    let mut parts = engine.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = [0; 3].map(|_: u32| parts.next().unwrap_or(0));
    found >= OLDEST_SQLITE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_versions_by_number() {
        assert!(is_new_enough("3.51.3"));
        assert!(is_new_enough("3.100.0"));
        assert!(is_new_enough("4.0"));
        assert!(!is_new_enough("3.51.2"));
        assert!(!is_new_enough("3.9.99"));
        assert!(!is_new_enough("nonsense"));
    }
}
