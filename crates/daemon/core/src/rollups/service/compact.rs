//! Compaction of old buckets.

use std::collections::BTreeMap;

use agentd_base::Timestamp;
use agentd_store::{StoreError, Tx};

use super::Rollups;
use crate::rollups::store::{self, Compaction, DAY, HOUR, LatencyRow, MINUTE, QUARTER};
use crate::runtime::LatencySum;
use crate::settings::SettingsError;

/// Compaction steps: table, span, target span, and age in seconds after which a bucket is compacted.
const STEPS: [(&str, i64, i64, i64); 5] = [
    ("counters", MINUTE, DAY, 48 * HOUR),
    ("counters", QUARTER, DAY, HOUR),
    ("latencies", MINUTE, HOUR, 48 * HOUR),
    ("latencies", HOUR, DAY, 90 * DAY),
    // Queried by the hour for the last 24 hours.
    ("usage_rollups", QUARTER, DAY, 25 * HOUR),
];
/// Maximum number of compacted buckets per step in one pass.
const MAX_BUCKETS_PER_PASS: usize = 24;

impl Rollups {
    /// Compacts a bounded number of old buckets. Returns the number of compacted buckets and whether more remain.
    ///
    /// # Errors
    /// `SettingsError` if the database is unavailable or the time zone cannot be read.
    pub async fn compact(&self) -> Result<(u64, bool), SettingsError> {
        self.0.settings.refresh().await?;
        let now = self.now();
        // Uses the earlier of this and the last time, so that a clock that is wrong for a short time does not cause
        // compaction.
        let Some(before) = *self.0.compacted_at.lock() else {
            *self.0.compacted_at.lock() = Some(now);
            return Ok((0, false));
        };
        let certain = now.min(before).as_micros();
        let (mut compacted, mut has_more) = (0, false);
        for (table, span, target_span, retention) in STEPS {
            for at in 0..MAX_BUCKETS_PER_PASS {
                let oldest = store::oldest(&mut self.0.db.read().await?, table, span).await?;
                let Some(oldest) = oldest.map(Timestamp::from_micros) else { break };
                let (from, to) = self.bucket_of(oldest, target_span);
                if to > certain - retention * 1_000_000 {
                    break;
                }
                self.compact_bucket(table, Compaction { span, from, to, target_span }).await?;
                compacted += 1;
                has_more |= at + 1 == MAX_BUCKETS_PER_PASS;
            }
        }
        if !has_more {
            *self.0.compacted_at.lock() = Some(now);
        }
        Ok((compacted, has_more))
    }

    fn bucket_of(&self, at: Timestamp, span: i64) -> (i64, i64) {
        let zone = self.days();
        if span == DAY {
            let day = zone.date(at);
            let period = zone.between(day, day);
            return (period.from.as_micros(), period.to.as_micros());
        }
        let start = zone.hour_of(at).as_micros();
        (start, start + span * 1_000_000)
    }

    async fn compact_bucket(&self, table: &'static str, compaction: Compaction) -> Result<(), StoreError> {
        let compact = async move |tx: &mut Tx| match table {
            "counters" => store::compact_counters(tx, compaction).await,
            "usage_rollups" => store::compact_usage(tx, compaction).await,
            _ => compact_latencies(tx, compaction).await,
        };
        self.0.db.write(compact).await.map(|_| ())
    }
}

/// Merges histograms in memory, because the database cannot.
async fn compact_latencies(tx: &mut Tx, compaction: Compaction) -> Result<u64, StoreError> {
    let mut found: BTreeMap<(String, String), Vec<LatencyRow>> = BTreeMap::new();
    for row in store::list_latencies_of(tx, compaction).await? {
        found.entry((row.series.clone(), row.label.clone())).or_default().push(row);
    }
    let mut sum = LatencySum::default();
    for ((series, label), rows) in found {
        rows.iter().for_each(|row| sum.add(&row.buckets));
        let latency = sum.take();
        let (buckets, errors) = (latency.to_bytes(), rows.iter().map(|row| row.errors).sum());
        let row = LatencyRow { series, at: compaction.at(), label, batch: String::new(), errors, buckets };
        store::put_latency(tx, &row, compaction.target_span, latency.count()).await?;
    }
    store::delete_latencies(tx, compaction).await
}
