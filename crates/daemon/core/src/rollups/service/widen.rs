//! Making old buckets wider.

use std::collections::BTreeMap;

use agentd_base::Timestamp;
use agentd_store::{StoreError, Tx};

use super::Rollups;
use crate::rollups::store::{self, DAY, HOUR, LatencyRow, MINUTE, QUARTER, Widening};
use crate::runtime::LatencySum;
use crate::settings::SettingsError;

/// Table, span, what it becomes, and how long it stays as it is once that is over.
const STEPS: [(&str, i64, i64, i64); 5] = [
    ("counters", MINUTE, DAY, 48 * HOUR),
    ("counters", QUARTER, DAY, HOUR),
    ("latencies", MINUTE, HOUR, 48 * HOUR),
    ("latencies", HOUR, DAY, 90 * DAY),
    // Asked for by the hour of the last 24.
    ("usage_rollups", QUARTER, DAY, 25 * HOUR),
];
/// Buckets that are made in one pass, of each.
const WIDENED_AT_ONCE: usize = 24;

impl Rollups {
    /// Makes old buckets wider; a bounded number a call. Answers how many were made, and whether there are more.
    ///
    /// # Errors
    /// The database is away, or the profile with the time zone cannot be read.
    pub async fn widen(&self) -> Result<(u64, bool), SettingsError> {
        self.0.settings.refresh().await?;
        let now = self.now();
        // What the clock said last counts as well: for one that was set wrong for a moment nothing is made coarse.
        let Some(before) = *self.0.widened_at.lock() else {
            *self.0.widened_at.lock() = Some(now);
            return Ok((0, false));
        };
        let certain = now.min(before).as_micros();
        let (mut made, mut has_more) = (0, false);
        for (table, span, wider, kept) in STEPS {
            for at in 0..WIDENED_AT_ONCE {
                let oldest = store::oldest(&mut self.0.db.read().await?, table, span).await?;
                let Some(oldest) = oldest.map(Timestamp::from_micros) else { break };
                let (from, to) = self.bucket_of(oldest, wider);
                if to > certain - kept * 1_000_000 {
                    break;
                }
                self.widen_one(table, Widening { span, from, to, wider }).await?;
                made += 1;
                has_more |= at + 1 == WIDENED_AT_ONCE;
            }
        }
        if !has_more {
            *self.0.widened_at.lock() = Some(now);
        }
        Ok((made, has_more))
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

    async fn widen_one(&self, table: &'static str, widening: Widening) -> Result<(), StoreError> {
        let widen = async move |tx: &mut Tx| match table {
            "counters" => store::widen_counters(tx, widening).await,
            "usage_rollups" => store::widen_usage(tx, widening).await,
            _ => widen_latencies(tx, widening).await,
        };
        self.0.db.write(widen).await.map(|_| ())
    }
}

/// Histograms are added here: the database cannot.
async fn widen_latencies(tx: &mut Tx, widening: Widening) -> Result<u64, StoreError> {
    let mut found: BTreeMap<(String, String), Vec<LatencyRow>> = BTreeMap::new();
    for row in store::list_latencies_of(tx, widening).await? {
        found.entry((row.series.clone(), row.label.clone())).or_default().push(row);
    }
    let mut sum = LatencySum::default();
    for ((series, label), rows) in found {
        rows.iter().for_each(|row| sum.add(&row.buckets));
        let latency = sum.take();
        let (buckets, errors) = (latency.to_bytes(), rows.iter().map(|row| row.errors).sum());
        let row = LatencyRow { series, at: widening.at(), label, batch: String::new(), errors, buckets };
        store::put_latency(tx, &row, widening.wider, latency.count()).await?;
    }
    store::delete_latencies(tx, widening).await
}
