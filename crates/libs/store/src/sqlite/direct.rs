//! SQLite connection that is used on the calling thread. Passing each statement to a driver thread and back would cost
//! several times as much as the statement itself.

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
const STATEMENT_CACHE_CAPACITY: usize = 256;
/// Time to wait for readers during a blocking checkpoint. Reads of requests take a fraction of it; nothing is committed
/// meanwhile.
const READER_GRACE_PERIOD: Duration = Duration::from_millis(100);
/// Limits the cache to 2 MiB and disables memory mapping. The log keeps its size, so that commits rarely have to extend
/// it.
const SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; \
    PRAGMA cache_size = -2048; PRAGMA mmap_size = 0; PRAGMA wal_autocheckpoint = 0; \
    PRAGMA journal_size_limit = 67108864;";

/// Opens the writer's connection, creating the file if necessary.
pub(crate) fn open(path: &Path) -> Result<Connection, StoreError> {
    create(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    enable_stable_plans(&connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
    connection.execute_batch(SETTINGS)?;
    connection.wal_hook(Some(|_, pages| {
        LOG_PAGES.set(u32::try_from(pages).unwrap_or(0));
        Ok(())
    }));
    Ok(connection)
}

/// Makes prepared statements keep their plan. Otherwise SQLite replans a statement with a bound `LIMIT` each time it
/// runs, which takes longer than running it. In exchange, parameter values no longer prove that a partial index
/// applies: a statement that should use one must repeat the condition of the index.
/// <https://sqlite.org/c3ref/c_dbconfig_defensive.html#sqlitedbconfigenableqpsg>
pub(crate) fn enable_stable_plans(connection: &Connection) -> Result<(), StoreError> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Creates an empty file, which SQLite accepts as a new database; its companion files get the same mode.
///
/// An existing file is never opened here: closing it would release every lock that this process holds on it (POSIX
/// locks belong to process and file, see fcntl(2)). Another program that opens the database would then consider itself
/// the last user and remove the log.
fn create(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(StoreError::io("creating", path, error)),
        _ => Ok(()),
    }
}

thread_local! {
    static LOG_PAGES: Cell<u32> = const { Cell::new(0) };
}

/// Returns the number of pages in the log after this thread's last commit.
pub(crate) fn log_pages() -> u32 {
    LOG_PAGES.get()
}

/// Runs a statement to completion and returns the number of changed rows.
pub(crate) fn execute(connection: &Connection, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
    let mut statement = bound(connection, sql, values)?;
    let mut rows = statement.raw_query();
    while rows.next()?.is_some() {}
    Ok(connection.changes())
}

/// Runs a statement to completion and returns its rows.
pub(crate) fn fetch(connection: &Connection, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
    let mut found = Vec::new();
    each(connection, sql, values, |row| {
        found.push(row);
        true
    })?;
    Ok(found)
}

/// Runs a statement and passes its rows to `take` until that returns `false`.
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

/// Runs a cached statement of the writer itself.
pub(crate) fn control(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    let mut statement = prepared(connection, sql)?;
    let mut rows = statement.raw_query();
    while rows.next()?.is_some() {}
    Ok(())
}

/// Runs a blocking checkpoint and waits briefly for readers, so that the next commit restarts the log. With permanent
/// readers it would otherwise grow without limit.
pub(crate) fn restart_log(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(READER_GRACE_PERIOD)?;
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
        // SQLite numbers `$1` by its position in the text, not by its digits.
        let name = statement.parameter_name(index).unwrap_or_default();
        let position: usize = name.get(1..).and_then(|number| number.parse().ok()).unwrap_or(index);
        let value = position.checked_sub(1).and_then(|offset| values.get(offset));
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
