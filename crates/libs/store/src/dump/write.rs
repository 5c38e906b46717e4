//! Writing a dump.
//!
//! Excludes bookkeeping of the database instance and the tables named by the caller. Events and cursors are renumbered,
//! because their numbers are meaningless in another PostgreSQL database.

use futures_util::StreamExt;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::catalog::{self, Table};
use super::format::{DumpSummary, FORMAT, FORMAT_VERSION, Header, Mark, encode};
use crate::read::Read;
use crate::{StoreError, args};

/// Size of a write to the sink.
const CHUNK_BYTES: usize = 64 * 1024;

/// Writes the state visible to `read`, which must be a snapshot.
pub(crate) async fn write<W>(read: &mut Read, sink: &mut W, exclude: &[&str]) -> Result<DumpSummary, StoreError>
where
    W: AsyncWrite + Unpin + Send,
{
    read.lift_time_limit().await?;
    let mut summary = DumpSummary::default();
    let mut lines = Vec::with_capacity(CHUNK_BYTES + 4096);
    let header = Header {
        format: FORMAT.to_owned(),
        format_version: FORMAT_VERSION,
        schema_version: catalog::schema_version(read).await?,
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

/// Returns the expression that reads a column: the column itself, except that event positions become plain numbers.
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
