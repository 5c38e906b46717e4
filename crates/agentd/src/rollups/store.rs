//! The rows of the buckets.

use agentd_base::Timestamp;
use agentd_store::{Dialect, Read, Row, StoreError, Tx, args, batch_of, rows_of};

use super::counter::Counter;
use super::period::Period;

/// Over how many rows replicas spread each count.
const SHARDS: i64 = 8;
const SECOND: i64 = 1_000_000;
pub(super) const MINUTE: i64 = 60;
pub(super) const QUARTER: i64 = 900;
pub(super) const HOUR: i64 = 3_600;
pub(super) const DAY: i64 = 86_400;

/// What a call of a model used, and whose it was; '' where that is not known.
#[derive(Debug, Clone, Copy)]
pub struct UsageEntry<'u> {
    pub at: Timestamp,
    pub provider: &'u str,
    pub model: &'u str,
    pub agent_id: &'u str,
    pub project_id: &'u str,
    pub origin: &'u str,
    pub key_id: &'u str,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub reasoning_tokens: u64,
    pub cost_micro_usd: Option<u64>,
}

/// When the bucket begins that `at` falls into.
pub(super) fn start_of(at: Timestamp, span: i64) -> i64 {
    at.as_micros().div_euclid(span * SECOND) * span * SECOND
}

fn shard(tx: &Tx) -> i64 {
    match tx.dialect() {
        // One writer meets nobody.
        Dialect::Sqlite => 0,
        Dialect::Postgres => tx.clock().now().as_micros().rem_euclid(SHARDS),
    }
}

/// Counts what happens in this transaction: what, its label, and how often.
///
/// # Errors
/// What the database refuses.
pub async fn count(tx: &mut Tx, counted: &[(Counter, &str, u64)]) -> Result<(), StoreError> {
    let (start, shard) = (start_of(tx.clock().now(), MINUTE), shard(tx));
    // In one order everywhere, so that no two transactions wait for each other. No row twice in a statement.
    let mut counted: Vec<(Counter, &str, u64)> = counted.iter().copied().filter(|(_, _, count)| *count > 0).collect();
    counted.sort_unstable();
    counted.dedup_by(|next, kept| {
        let is_same = (next.0, next.1) == (kept.0, kept.1);
        kept.2 += if is_same { next.2 } else { 0 };
        is_same
    });
    let mut rest = counted.as_slice();
    while !rest.is_empty() {
        let (batch, left) = rest.split_at(batch_of(rest.len()));
        let mut args = args![];
        for (counter, label, count) in batch {
            args.push(start);
            args.push(MINUTE);
            args.push(counter.as_str());
            args.push(*label);
            args.push(shard);
            args.push(*count);
        }
        let sql = format!(
            "INSERT INTO counters (start, span, name, label, shard, count) VALUES {} \
             ON CONFLICT (start, span, name, label, shard) DO UPDATE SET count = counters.count + excluded.count",
            rows_of(1, 6, batch.len())
        );
        tx.execute(sql, args).await?;
        rest = left;
    }
    Ok(())
}

const USAGE_KEY: &str = "start, span, provider, model, agent_id, project_id, origin, key_id, shard";
const USAGE_SUMS: [&str; 8] = [
    "calls",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_micro_usd",
    "unpriced_calls",
];

fn usage_upsert() -> String {
    let sums = USAGE_SUMS.map(|sum| format!("{sum} = usage_rollups.{sum} + excluded.{sum}")).join(", ");
    format!("ON CONFLICT ({USAGE_KEY}) DO UPDATE SET {sums}")
}

/// Adds a call, in the transaction that stores its row.
///
/// # Errors
/// What the database refuses.
pub async fn add_usage(tx: &mut Tx, entry: &UsageEntry<'_>) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO usage_rollups ({USAGE_KEY}, {}) VALUES ({}) {}",
        USAGE_SUMS.join(", "),
        (1..=17).map(|place| format!("${place}")).collect::<Vec<_>>().join(", "),
        usage_upsert(),
    );
    let args = args![
        start_of(entry.at, QUARTER),
        QUARTER,
        entry.provider,
        entry.model,
        entry.agent_id,
        entry.project_id,
        entry.origin,
        entry.key_id,
        shard(tx),
        1,
        entry.input_tokens,
        entry.output_tokens,
        entry.cache_read_tokens,
        entry.cache_write_tokens,
        entry.reasoning_tokens,
        entry.cost_micro_usd.unwrap_or(0),
        entry.cost_micro_usd.is_none()
    ];
    tx.execute(sql, args).await.map(|_| ())
}

/// When the oldest row with this span begins, in the table.
pub(super) async fn oldest(read: &mut Read, table: &'static str, span: i64) -> Result<Option<i64>, StoreError> {
    let sql = format!("SELECT MIN(start) AS start FROM {table} WHERE span = $1");
    read.fetch_one(sql, args![span]).await?.get("start")
}

/// Puts counters of the span into the bucket of `wider` seconds that begins at `start`.
pub(super) async fn widen_counters(tx: &mut Tx, span: i64, period: (i64, i64), wider: i64) -> Result<u64, StoreError> {
    let (from, to) = period;
    tx.execute(
        "INSERT INTO counters (start, span, name, label, shard, count) \
         SELECT $1, $2, name, label, 0, CAST(SUM(count) AS BIGINT) FROM counters \
         WHERE start >= $1 AND start < $3 AND span = $4 GROUP BY name, label \
         ON CONFLICT (start, span, name, label, shard) DO UPDATE SET count = counters.count + excluded.count",
        args![from, wider, to, span],
    )
    .await?;
    tx.execute("DELETE FROM counters WHERE start >= $1 AND start < $2 AND span = $3", args![from, to, span]).await
}

pub(super) async fn widen_usage(tx: &mut Tx, span: i64, period: (i64, i64), wider: i64) -> Result<u64, StoreError> {
    let (from, to) = period;
    let sums = USAGE_SUMS.map(|sum| format!("CAST(SUM({sum}) AS BIGINT)")).join(", ");
    let sql = format!(
        "INSERT INTO usage_rollups ({USAGE_KEY}, {}) \
         SELECT $1, $2, provider, model, agent_id, project_id, origin, key_id, 0, {sums} FROM usage_rollups \
         WHERE start >= $1 AND start < $3 AND span = $4 \
         GROUP BY provider, model, agent_id, project_id, origin, key_id {}",
        USAGE_SUMS.join(", "),
        usage_upsert()
    );
    tx.execute(sql, args![from, wider, to, span]).await?;
    tx.execute("DELETE FROM usage_rollups WHERE start >= $1 AND start < $2 AND span = $3", args![from, to, span]).await
}

/// A row of latencies.
#[derive(Debug, Clone)]
pub(super) struct LatencyRow {
    pub(super) start: i64,
    pub(super) series: String,
    pub(super) label: String,
    pub(super) errors: u64,
    pub(super) buckets: Vec<u8>,
}

impl LatencyRow {
    fn read(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            start: row.get("start")?,
            series: row.get("series")?,
            label: row.get("label")?,
            errors: row.get("errors")?,
            buckets: row.get("buckets")?,
        })
    }
}

/// In place of the row that is there.
pub(super) async fn put_latency(
    tx: &mut Tx,
    row: &LatencyRow,
    span: i64,
    instance: &str,
    count: u64,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO latencies (start, span, series, label, instance, count, errors, buckets) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (start, span, series, label, instance) \
         DO UPDATE SET count = excluded.count, errors = excluded.errors, buckets = excluded.buckets",
        args![row.start, span, &row.series, &row.label, instance, count, row.errors, row.buckets.clone()],
    )
    .await
    .map(|_| ())
}

/// The rows of one span that begin in the period.
pub(super) async fn list_latencies_of(
    read: &mut Read,
    span: i64,
    (from, to): (i64, i64),
) -> Result<Vec<LatencyRow>, StoreError> {
    let sql =
        "SELECT start, series, label, errors, buckets FROM latencies WHERE start >= $1 AND start < $2 AND span = $3";
    read.fetch_all(sql, args![from, to, span]).await?.iter().map(LatencyRow::read).collect()
}

pub(super) async fn delete_latencies(tx: &mut Tx, span: i64, (from, to): (i64, i64)) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM latencies WHERE start >= $1 AND start < $2 AND span = $3", args![from, to, span]).await
}

/// The rows of some series that begin in the period.
pub(super) async fn list_latencies(
    read: &mut Read,
    period: Period,
    series: &[&str],
) -> Result<Vec<LatencyRow>, StoreError> {
    let mut args = args![period.from, period.to];
    let wanted: Vec<String> = series.iter().map(|series| format!("${}", args.push(*series))).collect();
    let sql = format!(
        "SELECT start, series, label, errors, buckets FROM latencies WHERE start >= $1 AND start < $2 \
         AND series IN ({}) ORDER BY start",
        wanted.join(", ")
    );
    read.fetch_all(sql, args).await?.iter().map(LatencyRow::read).collect()
}

/// Name, label and sum of the counters of a period.
pub(super) async fn sum_counters(read: &mut Read, period: Period) -> Result<Vec<(String, String, u64)>, StoreError> {
    let sql = "SELECT name, label, CAST(SUM(count) AS BIGINT) AS count FROM counters WHERE start >= $1 AND start < $2 \
               GROUP BY name, label";
    let rows = read.fetch_all(sql, args![period.from, period.to]).await?;
    rows.iter().map(|row| Ok((row.get("name")?, row.get("label")?, row.get("count")?))).collect()
}

/// Beginning, name and sum of the counters of a period, whatever their labels.
pub(super) async fn list_counters(
    read: &mut Read,
    period: Period,
) -> Result<Vec<(Timestamp, String, u64)>, StoreError> {
    let sql = "SELECT start, name, CAST(SUM(count) AS BIGINT) AS count FROM counters WHERE start >= $1 AND start < $2 \
               GROUP BY start, name";
    let rows = read.fetch_all(sql, args![period.from, period.to]).await?;
    rows.iter().map(|row| Ok((row.get("start")?, row.get("name")?, row.get("count")?))).collect()
}

/// Sums of what calls used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageSum {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub reasoning_tokens: u64,
    pub cost_micro_usd: u64,
    /// Calls whose price is not known, which are not in `cost_micro_usd`.
    pub unpriced_calls: u64,
}

impl UsageSum {
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// In US dollars; `None` where nothing of it has a price.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn cost_usd(&self) -> Option<f64> {
        (self.calls == 0 || self.unpriced_calls < self.calls).then(|| self.cost_micro_usd as f64 / 1e6)
    }

    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.cost_micro_usd += other.cost_micro_usd;
        self.unpriced_calls += other.unpriced_calls;
    }

    fn read(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            calls: row.get("calls")?,
            input_tokens: row.get("input_tokens")?,
            output_tokens: row.get("output_tokens")?,
            cache_read_tokens: row.get("cache_read_tokens")?,
            cache_write_tokens: row.get("cache_write_tokens")?,
            reasoning_tokens: row.get("reasoning_tokens")?,
            cost_micro_usd: row.get("cost_micro_usd")?,
            unpriced_calls: row.get("unpriced_calls")?,
        })
    }
}

/// What a period used, by one of the columns of the key.
pub(super) async fn sum_usage_by(
    read: &mut Read,
    period: Period,
    column: &'static str,
) -> Result<Vec<(String, UsageSum)>, StoreError> {
    let sums = USAGE_SUMS.map(|sum| format!("CAST(SUM({sum}) AS BIGINT) AS {sum}")).join(", ");
    let sql = format!(
        "SELECT {column} AS label, {sums} FROM usage_rollups WHERE start >= $1 AND start < $2 GROUP BY {column}"
    );
    let rows = read.fetch_all(sql, args![period.from, period.to]).await?;
    rows.iter().map(|row| Ok((row.get("label")?, UsageSum::read(row)?))).collect()
}

/// What a period used, by when its rows begin.
pub(super) async fn list_usage(read: &mut Read, period: Period) -> Result<Vec<(Timestamp, UsageSum)>, StoreError> {
    let sums = USAGE_SUMS.map(|sum| format!("CAST(SUM({sum}) AS BIGINT) AS {sum}")).join(", ");
    let sql = format!("SELECT start, {sums} FROM usage_rollups WHERE start >= $1 AND start < $2 GROUP BY start");
    let rows = read.fetch_all(sql, args![period.from, period.to]).await?;
    rows.iter().map(|row| Ok((row.get("start")?, UsageSum::read(row)?))).collect()
}
