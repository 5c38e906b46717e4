//! SQL of model usage.

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Tx, args, row_placeholders};

use super::{Compaction, QUARTER, shard, start_of};
use crate::rollups::period::Period;

/// Dimension by which usage is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageDimension {
    Model,
    Agent,
    Project,
    Origin,
    Key,
}

impl UsageDimension {
    pub const ALL: [Self; 5] = [Self::Agent, Self::Key, Self::Model, Self::Origin, Self::Project];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Agent => "agent",
            Self::Project => "project",
            Self::Origin => "origin",
            Self::Key => "key",
        }
    }
}

/// Usage of a model call by its labels. Unknown labels are empty.
#[derive(Debug, Clone, Copy)]
pub struct UsageEntry<'u> {
    pub at: Timestamp,
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

impl UsageEntry<'_> {
    fn label(&self, dimension: UsageDimension) -> &str {
        match dimension {
            UsageDimension::Model => self.model,
            UsageDimension::Agent => self.agent_id,
            UsageDimension::Project => self.project_id,
            UsageDimension::Origin => self.origin,
            UsageDimension::Key => self.key_id,
        }
    }
}

const KEY: &str = "dimension, at, span, label, shard";
const SUMS: [&str; 8] = [
    "calls",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_micro_usd",
    "unpriced_calls",
];

fn upsert() -> String {
    let sums = SUMS.map(|sum| format!("{sum} = usage_rollups.{sum} + excluded.{sum}")).join(", ");
    format!("ON CONFLICT ({KEY}) DO UPDATE SET {sums}")
}

/// Adds the usage of a call in the transaction that stores its row.
///
/// # Errors
/// `StoreError` if the write fails.
pub async fn add_usage(tx: &mut Tx, entry: &UsageEntry<'_>) -> Result<(), StoreError> {
    let shard = shard(tx);
    let mut args = args![];
    for dimension in UsageDimension::ALL {
        args.push(dimension.as_str());
        args.push(start_of(entry.at, QUARTER));
        args.push(QUARTER);
        args.push(entry.label(dimension));
        args.push(shard);
        args.push(1_u64);
        args.push(entry.input_tokens);
        args.push(entry.output_tokens);
        args.push(entry.cache_read_tokens);
        args.push(entry.cache_write_tokens);
        args.push(entry.reasoning_tokens);
        args.push(entry.cost_micro_usd.unwrap_or(0));
        args.push(entry.cost_micro_usd.is_none());
    }
    let rows = row_placeholders(1, 5 + SUMS.len(), UsageDimension::ALL.len());
    let sql = format!("INSERT INTO usage_rollups ({KEY}, {}) VALUES {rows} {}", SUMS.join(", "), upsert());
    tx.execute(sql, args).await.map(|_| ())
}

/// Sums the tokens used by an agent since a time.
///
/// # Errors
/// `StoreError` if the query fails.
pub async fn sum_tokens_of_agent(read: &mut Read, agent_id: &str, since: Timestamp) -> Result<u64, StoreError> {
    let sql = "SELECT CAST(COALESCE(SUM(input_tokens + output_tokens), 0) AS BIGINT) AS tokens FROM usage_rollups \
               WHERE dimension = $1 AND label = $2 AND at >= $3";
    let args = args![UsageDimension::Agent.as_str(), agent_id, since];
    read.fetch_one(sql, args).await?.get("tokens")
}

/// Merges the usage of a bucket.
pub(crate) async fn compact_usage(tx: &mut Tx, compaction: Compaction) -> Result<u64, StoreError> {
    let Compaction { span, from, to, target_span } = compaction;
    let sums = SUMS.map(|sum| format!("CAST(SUM({sum}) AS BIGINT)")).join(", ");
    let sql = format!(
        "INSERT INTO usage_rollups ({KEY}, {}) SELECT dimension, $1, $2, label, 0, {sums} FROM usage_rollups \
         WHERE span = $3 AND at >= $4 AND at < $5 GROUP BY dimension, label {}",
        SUMS.join(", "),
        upsert()
    );
    tx.execute(sql, args![compaction.at(), target_span, span, from, to]).await?;
    tx.execute("DELETE FROM usage_rollups WHERE span = $1 AND at >= $2 AND at < $3", args![span, from, to]).await
}

/// Sums of the usage of model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageSum {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub reasoning_tokens: u64,
    pub cost_micro_usd: u64,
    /// Calls with an unknown price, which `cost_micro_usd` does not include.
    pub unpriced_calls: u64,
}

impl UsageSum {
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Cost in US dollars; `None` if no call has a known price.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "the cost may be approximate")]
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

    /// Reads the sums from a row.
    ///
    /// # Errors
    /// `StoreError` if a column is missing.
    pub fn read(row: &Row) -> Result<Self, StoreError> {
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

fn sums() -> String {
    SUMS.map(|sum| format!("CAST(SUM({sum}) AS BIGINT) AS {sum}")).join(", ")
}

/// Sums the usage of a period, by the labels of a dimension.
pub(crate) async fn sum_usage_by(
    read: &mut Read,
    period: Period,
    dimension: UsageDimension,
) -> Result<Vec<(String, UsageSum)>, StoreError> {
    let sql = format!(
        "SELECT label, {} FROM usage_rollups WHERE dimension = $1 AND at >= $2 AND at < $3 GROUP BY label",
        sums()
    );
    let rows = read.fetch_all(sql, args![dimension.as_str(), period.from, period.to]).await?;
    rows.iter().map(|row| Ok((row.get("label")?, UsageSum::read(row)?))).collect()
}

/// Lists the usage of a period, by the time of its buckets.
pub(crate) async fn list_usage(read: &mut Read, period: Period) -> Result<Vec<(Timestamp, UsageSum)>, StoreError> {
    // Every call is counted once in each dimension; this one has the fewest labels.
    let dimension = UsageDimension::Origin;
    let sql = format!(
        "SELECT at, {} FROM usage_rollups WHERE dimension = $1 AND at >= $2 AND at < $3 GROUP BY at ORDER BY at",
        sums()
    );
    let rows = read.fetch_all(sql, args![dimension.as_str(), period.from, period.to]).await?;
    rows.iter().map(|row| Ok((row.get("at")?, UsageSum::read(row)?))).collect()
}
