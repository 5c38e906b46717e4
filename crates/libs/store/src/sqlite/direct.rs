//! A connection that is used on the thread that asks, without a hop to another: handing each statement to a
//! driver's thread and back costs several times what the statement does.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OpenFlags, ToSql};

use crate::StoreError;
use crate::row::Row;
use crate::value::{Kind, Value, ValueError};

pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const STATEMENTS: usize = 256;
/// Reads of requests take a fraction of this; while it is waited for, nothing is committed.
const READERS_END_IN: Duration = Duration::from_millis(100);
/// At most 2 MiB of cache; nothing is mapped. The log keeps its length, so that commits rarely have to
/// extend it.
const SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; \
    PRAGMA cache_size = -2048; PRAGMA mmap_size = 0; PRAGMA wal_autocheckpoint = 0; \
    PRAGMA journal_size_limit = 67108864;";

/// Opens the writer's connection, and creates the file.
pub(crate) fn open(path: &Path) -> Result<Connection, StoreError> {
    create(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    keep_plans(&connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.execute_batch(SETTINGS)?;
    connection.wal_hook(Some(|_, pages| {
        LOG_PAGES.set(u32::try_from(pages).unwrap_or(0));
        Ok(())
    }));
    Ok(connection)
}

/// Has a prepared statement keep its plan. Otherwise SQLite plans every statement with a bound `LIMIT` anew each
/// time it is run, which takes longer than running it. The price: what a parameter holds no longer proves that a
/// partial index fits, so a statement that is to use one says the index's condition in words.
/// <https://sqlite.org/c3ref/c_dbconfig_defensive.html#sqlitedbconfigenableqpsg>
pub(crate) fn keep_plans(connection: &Connection) -> Result<(), StoreError> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// SQLite takes an empty file for a new database, and its companions get the same mode.
///
/// A file that is there is never opened here: closing it again would end every lock that this process
/// holds on it (POSIX locks belong to process and file, see fcntl(2)), and another program that looks
/// into the database would then take itself for the last one and remove the log under the daemon.
fn create(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(StoreError::io("creating", path, error)),
        _ => Ok(()),
    }
}

thread_local! {
    static LOG_PAGES: Cell<u32> = const { Cell::new(0) };
}

/// How many pages the log held after this thread's last commit.
pub(crate) fn log_pages() -> u32 {
    LOG_PAGES.get()
}

/// Runs a statement to its end and answers how many rows it changed.
pub(crate) fn execute(connection: &Connection, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
    let mut statement = bound(connection, sql, values)?;
    let mut rows = statement.raw_query();
    while rows.next()?.is_some() {}
    Ok(connection.changes())
}

/// Runs a statement to its end and answers its rows.
pub(crate) fn fetch(connection: &Connection, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
    let mut found = Vec::new();
    each(connection, sql, values, |row| {
        found.push(row);
        true
    })?;
    Ok(found)
}

/// Runs a statement and hands over its rows one by one, until `take` answers that it wants no more.
pub(crate) fn each(
    connection: &Connection,
    sql: &str,
    values: &[Value],
    mut take: impl FnMut(Row) -> bool,
) -> Result<(), StoreError> {
    let mut statement = bound(connection, sql, values)?;
    let columns: Arc<[Box<str>]> = statement.column_names().into_iter().map(Into::into).collect();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let mut values = Vec::with_capacity(columns.len());
        for (position, column) in columns.iter().enumerate() {
            let read = value(row.get_ref(position)?);
            values.push(read.map_err(|source| StoreError::Column { column: column.to_string(), source })?);
        }
        if !take(Row { columns: Arc::clone(&columns), values: values.into() }) {
            break;
        }
    }
    Ok(())
}

/// A statement of the writer itself, prepared once and kept.
pub(crate) fn control(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    let mut statement = prepared(connection, sql)?;
    let mut rows = statement.raw_query();
    while rows.next()?.is_some() {}
    Ok(())
}

/// Copies the whole log back and waits for readers that still look into it, so that the next commit begins it
/// anew: where somebody always reads, it would grow for ever. One that reads for longer than that is not waited for.
pub(crate) fn restart_log(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(READERS_END_IN)?;
    let restarted = control(connection, "PRAGMA wal_checkpoint(RESTART)");
    connection.busy_timeout(BUSY_TIMEOUT)?;
    restarted
}

fn prepared<'c>(connection: &'c Connection, sql: &str) -> Result<CachedStatement<'c>, StoreError> {
    #[cfg(feature = "testing")]
    let sql = &*crate::testing::statements::altered(sql);
    Ok(connection.prepare_cached(sql)?)
}

fn bound<'c>(connection: &'c Connection, sql: &str, values: &[Value]) -> Result<CachedStatement<'c>, StoreError> {
    let mut statement = prepared(connection, sql)?;
    for index in 1..=statement.parameter_count() {
        // SQLite numbers `$1` by where it stands in the text, not by what it says.
        let name = statement.parameter_name(index).unwrap_or_default();
        let position: usize = name.get(1..).and_then(|number| number.parse().ok()).unwrap_or(index);
        let value = position.checked_sub(1).and_then(|place| values.get(place));
        let value = value.ok_or(StoreError::Argument { position, source: ValueError::Missing })?;
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(statement)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null(_) => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn value(raw: ValueRef<'_>) -> Result<Value, ValueError> {
    Ok(match raw {
        ValueRef::Null => Value::Null(Kind::Text),
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(std::str::from_utf8(text).map_err(|_| ValueError::Utf8)?.to_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    })
}
