//! SQL of latency histograms.

use agentd_store::{Read, Row, StoreError, Tx, args, in_list};

use super::Compaction;
use crate::rollups::period::Period;

/// Row of latencies.
#[derive(Debug, Clone)]
pub(crate) struct LatencyRow {
    pub(crate) series: String,
    pub(crate) at: i64,
    pub(crate) label: String,
    pub(crate) batch: String,
    pub(crate) errors: u64,
    pub(crate) buckets: Vec<u8>,
}

impl LatencyRow {
    fn read(mut row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            series: row.get("series")?,
            at: row.get("at")?,
            label: row.get("label")?,
            batch: row.get("batch")?,
            errors: row.get("errors")?,
            buckets: row.take_bytes("buckets")?,
        })
    }
}

/// Inserts a row or replaces the existing one.
pub(crate) async fn put_latency(tx: &mut Tx, row: &LatencyRow, span: i64, count: u64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO latencies (series, at, span, label, batch, count, errors, buckets) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (series, at, span, label, batch) \
         DO UPDATE SET count = excluded.count, errors = excluded.errors, buckets = excluded.buckets",
        args![&row.series, row.at, span, &row.label, &row.batch, count, row.errors, row.buckets.clone()],
    )
    .await
    .map(|_| ())
}

/// Lists the rows to compact, and the existing rows of the target bucket.
pub(crate) async fn list_latencies_of(read: &mut Read, compaction: Compaction) -> Result<Vec<LatencyRow>, StoreError> {
    let sql = "SELECT series, at, label, batch, errors, buckets FROM latencies \
               WHERE (span = $1 AND at >= $2 AND at < $3) OR (span = $4 AND at = $5)";
    let args = args![compaction.span, compaction.from, compaction.to, compaction.target_span, compaction.at()];
    read.fetch_all(sql, args).await?.into_iter().map(LatencyRow::read).collect()
}

pub(crate) async fn delete_latencies(tx: &mut Tx, compaction: Compaction) -> Result<u64, StoreError> {
    let sql = "DELETE FROM latencies WHERE span = $1 AND at >= $2 AND at < $3";
    tx.execute(sql, args![compaction.span, compaction.from, compaction.to]).await
}

/// Lists the rows of series in a period.
pub(crate) async fn list_latencies(
    read: &mut Read,
    period: Period,
    series: &[&str],
) -> Result<Vec<LatencyRow>, StoreError> {
    let mut args = args![period.from, period.to];
    let sql = format!(
        "SELECT series, at, label, batch, errors, buckets FROM latencies \
         WHERE series IN ({}) AND at >= $1 AND at < $2",
        in_list(&mut args, series)
    );
    read.fetch_all(sql, args).await?.into_iter().map(LatencyRow::read).collect()
}
