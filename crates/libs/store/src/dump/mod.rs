//! Logical dumps: every table as lines of JSON, from one consistent state, readable by either
//! database.
//!
//! The first line is a header, then each table's line is followed by a line for each of its rows,
//! and the last line says how many rows there were, so that a cut-off file is noticed. A row is an
//! array in the order of the table's columns: integers as numbers, text as strings, reals as strings
//! (JSON readers disagree on their last digit), bytes in base64.
//!
//! Left out: bookkeeping of the one database, and what the caller excludes. Events are numbered anew
//! and cursors with them, because their numbers mean nothing in another PostgreSQL.

pub(crate) mod catalog;
mod load;
mod upgrade;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use self::catalog::Table;
use crate::read::Read;
use crate::value::Value;
use crate::{Db, StoreError, Tx, args, migrate};

const FORMAT: &str = "agentd-dump";
const FORMAT_VERSION: u32 = 1;
/// Written at once.
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    format_version: u32,
    schema_version: u32,
    created_at: agentd_base::Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mark {
    Table { name: String, columns: Vec<String> },
    End { rows: u64 },
}

/// What was written or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DumpSummary {
    pub tables: u64,
    pub rows: u64,
}

impl Db {
    /// Writes the whole database to `sink`, except the tables in `exclude`. Holds back no writer.
    ///
    /// # Errors
    /// When the database cannot be read or `sink` cannot be written.
    pub async fn dump<W>(&self, sink: &mut W, exclude: &[&str]) -> Result<DumpSummary, StoreError>
    where
        W: AsyncWrite + Unpin + Send,
    {
        write(&mut self.read_snapshot().await?, sink, exclude).await
    }

    /// Empties every table and loads a dump, all in one transaction: whatever goes wrong, the old
    /// contents stand. Tables that the dump does not have stay empty. Leases end. All topics count
    /// as changed, and the database has a new [`database_id`](Self::database_id).
    ///
    /// It holds the writer for as long as it takes: drain first.
    ///
    /// # Errors
    /// `StoreError::Dump` when the dump is not one, is cut off, or was made by a program with another
    /// schema; see [`upgrade_dump`](Self::upgrade_dump).
    pub async fn load<R>(&self, source: &mut R) -> Result<DumpSummary, StoreError>
    where
        R: AsyncRead + Unpin + Send,
    {
        self.load_validated(source, async |_: &mut Tx| Ok(())).await
    }

    /// Like [`load`](Self::load), but before anything is committed `validate` looks at what was loaded;
    /// what it answers with an error is taken back whole.
    ///
    /// # Errors
    /// As [`load`](Self::load), and what `validate` answers.
    pub async fn load_validated<R, J>(&self, source: &mut R, validate: J) -> Result<DumpSummary, StoreError>
    where
        R: AsyncRead + Unpin + Send,
        J: AsyncFn(&mut Tx) -> Result<(), StoreError> + Send + 'static,
    {
        load::load(self, source, validate).await
    }

    /// Writes a dump of an older schema to `sink` as one of this database's schema; answers whether that was needed,
    /// otherwise nothing is written. In between is a SQLite database in `folder`, which is left there. This database
    /// is not looked at.
    ///
    /// # Errors
    /// `StoreError::Dump` when the dump is not one, is cut off, is of a newer schema, or has rows that do not fit.
    pub async fn upgrade_dump<R, W>(&self, source: &mut R, sink: &mut W, folder: &Path) -> Result<bool, StoreError>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send,
    {
        upgrade::upgrade(self, source, sink, folder).await
    }
}

/// Writes what `read` sees; it must see one state.
pub(crate) async fn write<W>(read: &mut Read, sink: &mut W, exclude: &[&str]) -> Result<DumpSummary, StoreError>
where
    W: AsyncWrite + Unpin + Send,
{
    read.take_time().await?;
    let mut summary = DumpSummary::default();
    let mut lines = Vec::with_capacity(CHUNK_BYTES + 4096);
    let header = Header {
        format: FORMAT.to_owned(),
        format_version: FORMAT_VERSION,
        schema_version: migrate::version(read).await?,
        created_at: read.clock().now(),
    };
    line(&mut lines, &header)?;
    for table in catalog::tables(read).await? {
        if exclude.contains(&table.name.as_str()) {
            continue;
        }
        let columns = table.columns.iter().map(|column| column.name.clone()).collect();
        line(&mut lines, &Mark::Table { name: table.name.clone(), columns })?;
        summary.tables += 1;
        let mut rows = read.fetch_stream(query(&table), args![])?;
        while let Some(row) = rows.next().await {
            let values: Vec<serde_json::Value> = row?.values.iter().map(encode).collect();
            line(&mut lines, &values)?;
            summary.rows += 1;
            if lines.len() >= CHUNK_BYTES {
                sink.write_all(&lines).await?;
                lines.clear();
            }
        }
    }
    line(&mut lines, &Mark::End { rows: summary.rows })?;
    sink.write_all(&lines).await?;
    sink.flush().await?;
    Ok(summary)
}

fn line(lines: &mut Vec<u8>, content: &impl Serialize) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *lines, content).map_err(|e| StoreError::dump(e.to_string()))?;
    lines.push(b'\n');
    Ok(())
}

fn query(table: &Table) -> String {
    let columns: Vec<String> = table.columns.iter().map(|column| expression(table, &column.name)).collect();
    let order = match table.name.as_str() {
        "outbox" => "ORDER BY outbox.tx_id, outbox.seq".to_owned(),
        _ if table.primary_key.is_empty() => String::new(),
        name => {
            let key: Vec<String> = table.primary_key.iter().map(|column| format!("{name}.\"{column}\"")).collect();
            format!("ORDER BY {}", key.join(", "))
        }
    };
    format!("SELECT {} FROM {} {order}", columns.join(", "), table.name)
}

/// How a column is read: as it is, except that the order of events becomes plain numbers.
fn expression(table: &Table, column: &str) -> String {
    match (table.name.as_str(), column) {
        ("outbox" | "cursors", "tx_id") => "CAST(0 AS BIGINT) AS tx_id".to_owned(),
        ("outbox", "seq") => "row_number() OVER (ORDER BY outbox.tx_id, outbox.seq) AS seq".to_owned(),
        ("cursors", "seq") => "(SELECT COUNT(*) FROM outbox e \
             WHERE (e.tx_id, e.seq) <= (cursors.tx_id, cursors.seq)) AS seq"
            .to_owned(),
        (name, column) => format!("{name}.\"{column}\""),
    }
}

fn encode(value: &Value) -> serde_json::Value {
    match value {
        Value::Null(_) => serde_json::Value::Null,
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => number.to_string().into(),
        Value::Text(text) => text.as_str().into(),
        Value::Blob(bytes) => BASE64.encode(bytes).into(),
    }
}
