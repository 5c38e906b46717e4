//! Loading a dump. The caller's task reads and validates lines, the transaction inserts them. A short channel connects
//! them, so that rows are not buffered.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::mpsc;

use super::catalog::{self, Table};
use super::format::{DumpSummary, FORMAT, FORMAT_VERSION, Header, Mark, decode};
use crate::job::{Durability, Isolation, Plan};
use crate::topic::EVERYTHING;
use crate::value::Value;
use crate::{Args, Db, Dialect, StoreError, Tx, args};

/// Maximum length of a line; a longer one cannot be a row.
const LINE_BYTES: u64 = 256 << 20;
/// Maximum parameters per statement. Both databases allow more, but larger statements bring no gain.
const PARAMETERS: usize = 600;
const BATCH_BYTES: usize = 1 << 20;

/// Message to the inserting transaction.
enum Feed {
    Rows {
        table: usize,
        /// Line number of the first row.
        line: u64,
        values: Vec<Value>,
    },
    /// The dump was read completely and is valid.
    End,
}

pub(super) async fn load<R, J>(db: &Db, source: &mut R, validate: J) -> Result<DumpSummary, StoreError>
where
    R: AsyncRead + Unpin + Send,
    J: AsyncFn(&mut Tx) -> Result<(), StoreError> + Send + 'static,
{
    let known = catalog::schema_version(&mut db.read().await?).await?;
    let mut lines = Lines::new(source);
    let version = check_header(&mut lines, known).await?;
    if version < known {
        return Err(StoreError::dump(format!(
            "it has the older schema version {version} (current: {known}) and must be upgraded first"
        )));
    }
    let finish = async move |tx: &mut Tx| {
        reset_instance_state(tx).await.map_err(|error| into_dump_error(error, "its content"))?;
        validate(tx).await
    };
    load_rows(db, lines, finish).await
}

/// Replaces all rows with those after the header, and runs `finish` at the end of the transaction.
pub(super) async fn load_rows<R, F>(db: &Db, mut lines: Lines<R>, finish: F) -> Result<DumpSummary, StoreError>
where
    R: AsyncRead + Unpin + Send,
    F: AsyncFn(&mut Tx) -> Result<(), StoreError> + Send + 'static,
{
    let tables = Arc::new(catalog::tables(&mut db.read().await?).await?);
    let (feed, rows) = mpsc::channel(4);
    let rows = Arc::new(Mutex::new(Some(rows)));
    let inserted_tables = Arc::clone(&tables);
    // The locks taken first exclude every other writer, so no conflict is possible; a second run could not read the
    // rows again.
    let plan = Plan { durability: Durability::Full, isolation: Isolation::ReadCommitted };
    let inserting = db.run(plan, async move |tx: &mut Tx| {
        let taken = rows.lock().take();
        let Some(mut rows) = taken else { return Err(StoreError::Contended) };
        tx.lift_time_limit().await?;
        insert(tx, &inserted_tables, &mut rows).await.map_err(|error| into_dump_error(error, "its content"))?;
        finish(tx).await
    });
    let feeding = async {
        // Dropping the sender without `End` makes the transaction fail.
        let feed = feed;
        parse(&mut lines, &tables, &feed).await
    };
    let (inserted, parsed) = tokio::join!(inserting, feeding);
    match (inserted, parsed) {
        (Ok(()), parsed) => parsed,
        // An invalid dump explains the failed transaction, unless the transaction failed first.
        (Err(error), Err(StoreError::Aborted)) => Err(error),
        (Err(StoreError::Dump { .. }), Err(error)) => Err(error),
        (Err(error), _) => Err(error),
    }
}

pub(super) struct Lines<R> {
    source: BufReader<R>,
    line: Vec<u8>,
    number: u64,
}

impl<R: AsyncRead + Unpin + Send> Lines<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source: BufReader::with_capacity(64 * 1024, source), line: Vec::new(), number: 0 }
    }

    /// Reads the next line, or `None` at the end.
    async fn next(&mut self) -> Result<Option<&[u8]>, StoreError> {
        self.line.clear();
        self.number += 1;
        let bytes = (&mut self.source).take(LINE_BYTES).read_until(b'\n', &mut self.line).await?;
        if bytes == 0 {
            return Ok(None);
        }
        if self.line.pop() != Some(b'\n') {
            return Err(self.wrong("is truncated"));
        }
        Ok(Some(&self.line))
    }

    fn wrong(&self, what: impl std::fmt::Display) -> StoreError {
        StoreError::dump(format!("line {} {what}", self.number))
    }
}

/// Returns the schema version of the dump, which is at most `known`.
pub(super) async fn check_header<R: AsyncRead + Unpin + Send>(
    lines: &mut Lines<R>,
    known: u32,
) -> Result<u32, StoreError> {
    let not_a_dump = || StoreError::dump("it does not start with the header of a dump");
    let line = lines.next().await?.ok_or_else(not_a_dump)?;
    let header: Header = serde_json::from_slice(line).map_err(|_| not_a_dump())?;
    let version = header.schema_version;
    if header.format != FORMAT || version == 0 {
        return Err(not_a_dump());
    }
    if header.format_version > FORMAT_VERSION {
        return Err(StoreError::dump("it was created by a newer version of agentd; use that version or a newer one"));
    }
    if version > known {
        return Err(StoreError::dump(format!(
            "it has schema version {version}, but this version of agentd supports up to {known}; use a newer version"
        )));
    }
    Ok(version)
}

/// Reads table by table and sends rows in batches.
async fn parse<R: AsyncRead + Unpin + Send>(
    lines: &mut Lines<R>,
    tables: &[Table],
    feed: &mpsc::Sender<Feed>,
) -> Result<DumpSummary, StoreError> {
    let mut summary = DumpSummary::default();
    let mut current: Option<usize> = None;
    let mut seen = HashSet::new();
    let mut values = Vec::new();
    let mut bytes = 0;
    let mut first_line = 0;
    loop {
        let length = lines.next().await?.map(<[u8]>::len);
        let Some(length) = length else { return Err(StoreError::dump("it is truncated: its last line is missing")) };
        let is_row = lines.line.first() == Some(&b'[');
        if let Some(table) = current
            && (!is_row
                || bytes >= BATCH_BYTES
                || values.len() >= batch_rows(&tables[table]) * tables[table].columns.len())
            && !values.is_empty()
        {
            send(feed, Feed::Rows { table, line: first_line, values: std::mem::take(&mut values) }).await?;
            bytes = 0;
        }
        if is_row {
            let table = current.ok_or_else(|| lines.wrong("is a row before the first table"))?;
            if values.is_empty() {
                first_line = lines.number;
            }
            decode_row(lines, &tables[table], &mut values)?;
            summary.rows += 1;
            bytes += length;
            continue;
        }
        match serde_json::from_slice(&lines.line).map_err(|_| lines.wrong("is not a line of a dump"))? {
            Mark::Table { name, columns } => {
                let index = tables.iter().position(|table| table.name == name);
                let index = index.ok_or_else(|| lines.wrong(format!("names the unknown table `{name}`")))?;
                if !tables[index].columns.iter().map(|column| &column.name).eq(&columns) {
                    return Err(lines.wrong(format!("has other columns for `{name}` than the database")));
                }
                if !seen.insert(index) {
                    return Err(lines.wrong(format!("repeats the table `{name}`")));
                }
                current = Some(index);
                summary.tables += 1;
            }
            Mark::End { rows } if rows == summary.rows => {
                if lines.next().await?.is_some() {
                    return Err(lines.wrong("comes after the end"));
                }
                send(feed, Feed::End).await?;
                return Ok(summary);
            }
            Mark::End { rows } => {
                return Err(lines.wrong(format!("states {rows} rows, but the dump contains {}", summary.rows)));
            }
        }
    }
}

/// Returns `Aborted` if the transaction has ended; its own error gives the reason.
async fn send(feed: &mpsc::Sender<Feed>, item: Feed) -> Result<(), StoreError> {
    feed.send(item).await.map_err(|_| StoreError::Aborted)
}

fn batch_rows(table: &Table) -> usize {
    (PARAMETERS / table.columns.len().max(1)).clamp(1, 100)
}

fn decode_row<R: AsyncRead + Unpin + Send>(
    lines: &Lines<R>,
    table: &Table,
    values: &mut Vec<Value>,
) -> Result<(), StoreError> {
    let row: Vec<serde_json::Value> = serde_json::from_slice(&lines.line).map_err(|_| lines.wrong("is not a row"))?;
    if row.len() != table.columns.len() {
        return Err(lines.wrong(format!("has {} values for {} columns", row.len(), table.columns.len())));
    }
    for (value, column) in row.into_iter().zip(&table.columns) {
        let decoded = decode(value, column.kind)
            .ok_or_else(|| lines.wrong(format!("has no valid value for `{}`", column.name)))?;
        values.push(decoded);
    }
    Ok(())
}

/// Replaces the rows of all tables.
async fn insert(tx: &mut Tx, tables: &[Table], rows: &mut mpsc::Receiver<Feed>) -> Result<(), StoreError> {
    if tx.dialect() == Dialect::Postgres {
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        tx.execute(format!("LOCK TABLE {} IN EXCLUSIVE MODE", names.join(", ")), args![]).await?;
    }
    for table in tables.iter().rev() {
        tx.execute(format!("DELETE FROM {}", table.name), args![]).await?;
    }
    loop {
        match rows.recv().await {
            Some(Feed::Rows { table, line, values }) => insert_batch(tx, &tables[table], line, values).await?,
            Some(Feed::End) => break,
            None => return Err(StoreError::dump("it was not read completely")),
        }
    }
    Ok(())
}

/// Resets state tied to one database instance: leases, sequences, change logs and the database id.
async fn reset_instance_state(tx: &mut Tx) -> Result<(), StoreError> {
    // A lease holder worked on a previous state of the database.
    tx.execute(
        "UPDATE queue SET status = 'pending', owner = NULL, due_at = run_at, fence = fence + 1 WHERE status = 'leased'",
        args![],
    )
    .await?;
    if tx.dialect() == Dialect::Postgres {
        raise_sequences(tx).await?;
    }
    tx.forget_changes().await?;
    let id = tx.ids().next_ulid();
    tx.execute("UPDATE store_info SET value = $1 WHERE name = 'database_id'", args![id]).await?;
    tx.touch(EVERYTHING);
    Ok(())
}

/// Advances the PostgreSQL sequences past the loaded numbers.
async fn raise_sequences(tx: &mut Tx) -> Result<(), StoreError> {
    let numbered = tx
        .fetch_all(
            "SELECT t.relname AS table_name, a.attname AS column_name FROM pg_class t \
             JOIN pg_attribute a ON a.attrelid = t.oid AND a.attidentity <> '' AND NOT a.attisdropped \
             WHERE t.relkind IN ('r', 'p') AND t.relnamespace = current_schema()::regnamespace",
            args![],
        )
        .await?;
    for row in numbered {
        let (table, column): (String, String) = (row.get("table_name")?, row.get("column_name")?);
        let sql = format!(
            "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), COALESCE(MAX({column}), 0) + 1, false) \
             AS next FROM {table}"
        );
        tx.fetch_optional(sql, args![]).await?;
    }
    Ok(())
}

/// Converts errors caused by the content of the dump to `StoreError::Dump`.
fn into_dump_error(error: StoreError, what: &str) -> StoreError {
    match error {
        StoreError::Unique { .. }
        | StoreError::ForeignKey { .. }
        | StoreError::Constraint { .. }
        | StoreError::Argument { .. } => StoreError::dump(format!("{what} cannot be stored: {error}")),
        // The message of the driver may name a problem without a constraint, such as a number out of range.
        StoreError::Database { source } => StoreError::dump(format!("{what} cannot be stored: {source}")),
        other => other,
    }
}

/// Inserts rows with one statement; if the database rejects them, finds the offending row.
async fn insert_batch(tx: &mut Tx, table: &Table, line: u64, values: Vec<Value>) -> Result<(), StoreError> {
    tx.execute("SAVEPOINT batch", args![]).await?;
    let Err(refusal) = insert_rows(tx, table, &values).await else {
        return tx.execute("RELEASE SAVEPOINT batch", args![]).await.map(|_| ());
    };
    if !matches!(into_dump_error(refusal.clone(), ""), StoreError::Dump { .. }) {
        return Err(refusal);
    }
    // Only the batch has failed once the savepoint is rolled back.
    tx.read.failure = None;
    // If the whole transaction is gone (full disk), the dump is not the cause.
    if tx.execute("ROLLBACK TO SAVEPOINT batch", args![]).await.is_err() {
        return Err(refusal);
    }
    for (row, line) in values.chunks(table.columns.len().max(1)).zip(line..) {
        let taken = insert_rows(tx, table, row).await;
        taken.map_err(|error| into_dump_error(error, &format!("line {line}, a row of the table `{}`,", table.name)))?;
    }
    Err(into_dump_error(refusal, &format!("the rows of the table `{}` from line {line} on", table.name)))
}

async fn insert_rows(tx: &mut Tx, table: &Table, values: &[Value]) -> Result<(), StoreError> {
    let width = table.columns.len();
    let names: Vec<String> = table.columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    let rows = values.len() / width.max(1);
    let mut sql = format!("INSERT INTO {} ({}) VALUES ", table.name, names.join(", "));
    for row in 0..rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        let placeholders: Vec<String> = (1..=width).map(|column| format!("${}", row * width + column)).collect();
        sql.push_str(&placeholders.join(", "));
        sql.push(')');
    }
    let mut args = Args::with_capacity(values.len());
    for value in values {
        args.push(value.clone());
    }
    tx.execute(sql, args).await?;
    Ok(())
}
