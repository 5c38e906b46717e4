//! Storage and queries of latencies.

use std::collections::HashSet;

use agentd_base::Timestamp;
use agentd_store::{StoreError, Tx};

use super::{PendingMeasurements, Rollups};
use crate::rollups::period::Period;
use crate::rollups::store::{self, LatencyRow, MINUTE};
use crate::runtime::{Recorded, Series};

/// Maximum number of rows that wait while the database is unavailable; the oldest are dropped first.
const MAX_PENDING_ROWS: usize = 20_000;

/// Latencies of one bucket.
#[derive(Debug, Clone)]
pub struct LatencyBucket {
    pub at: Timestamp,
    pub series: Series,
    pub label: String,
    pub errors: u64,
    /// Histogram encoded by [`Latency::to_bytes`](crate::runtime::Latency::to_bytes), because a period may have
    /// thousands.
    pub histogram: Vec<u8>,
}

impl Rollups {
    /// Returns the end of the minute being recorded; `None` if nothing is recorded. If the clock was set back to before
    /// that minute, returns the current time, so that the measurements are stored immediately.
    pub(crate) fn minute_end(&self) -> Option<Timestamp> {
        let minute = self.0.pending.lock().minute?;
        let now = self.now();
        let is_ahead = minute > store::start_of(now, MINUTE);
        Some(if is_ahead { now } else { Timestamp::from_micros(minute + MINUTE * 1_000_000) })
    }

    /// Takes the measurements of past minutes from the recorder.
    fn take_recorded(&self, is_last: bool) -> Vec<(LatencyRow, u64)> {
        let now = store::start_of(self.now(), MINUTE);
        let mut pending = self.0.pending.lock();
        let has_pending = self.0.recorder.has_pending();
        match pending.minute {
            None if has_pending && !is_last => pending.minute = Some(now),
            Some(minute) if minute == now && !is_last => {}
            None if !has_pending => {}
            minute => {
                // Unique per batch, because a minute repeats if the clock is set back.
                let batch = self.0.ids.next_ulid();
                let taken = self.0.recorder.drain().into_iter().map(|(series, label, recorded)| {
                    let row = LatencyRow {
                        series: series.as_str().to_owned(),
                        at: minute.unwrap_or(now),
                        label: label.into(),
                        batch: batch.clone(),
                        errors: recorded.errors,
                        buckets: recorded.latency.to_bytes(),
                    };
                    (row, recorded.latency.count())
                });
                pending.rows.extend(taken);
                let excess = pending.rows.len().saturating_sub(MAX_PENDING_ROWS);
                pending.rows.drain(..excess);
                pending.minute = None;
                pending.generation += 1;
            }
        }
        pending.rows.clone()
    }

    /// Stores the measurements of past minutes; with `is_last`, of the current minute too. Returns the number of rows.
    ///
    /// # Errors
    /// `StoreError` if the database is unavailable; nothing is lost then.
    pub async fn flush(&self, is_last: bool) -> Result<usize, StoreError> {
        let rows = self.take_recorded(is_last);
        let Some((last, _)) = rows.last() else { return Ok(0) };
        let (stored, last) = (rows.len(), last.batch.clone());
        let write = async move |tx: &mut Tx| {
            tx.keep_version();
            for (row, count) in &rows {
                store::put_latency(tx, row, MINUTE, *count).await?;
            }
            Ok::<_, StoreError>(())
        };
        self.0.db.write(write).await?;
        // Rows added meanwhile are behind the stored ones; surplus rows were removed from the front.
        let mut pending = self.0.pending.lock();
        let end = pending.rows.iter().rposition(|(row, _)| row.batch == last).map_or(0, |last| last + 1);
        pending.rows.drain(..end);
        pending.generation += 1;
        Ok(stored)
    }

    /// Returns the latencies of a period, including measurements that are not stored yet.
    ///
    /// # Errors
    /// `StoreError` if the database is unavailable.
    pub async fn latencies(&self, period: Period, series: &[Series]) -> Result<Vec<LatencyBucket>, StoreError> {
        let names: Vec<&str> = series.iter().map(|series| series.as_str()).collect();
        let is_within = |at: i64| (period.from.as_micros()..period.to.as_micros()).contains(&at);
        let this_minute =
            |pending: &PendingMeasurements| pending.minute.unwrap_or_else(|| store::start_of(self.now(), MINUTE));
        let (mut rows, waiting, at, recorded) = loop {
            let generation = self.0.pending.lock().generation;
            let rows = store::list_latencies(&mut self.0.db.read().await?, period, &names).await?;
            let pending = self.0.pending.lock();
            // If rows were stored meanwhile, they would be missing or counted twice; read again.
            if pending.generation == generation {
                let at = this_minute(&pending);
                let recorded = if is_within(at) { self.0.recorder.load() } else { Vec::new() };
                break (rows, pending.rows.clone(), at, recorded);
            }
        };
        // A write may have been committed although its response was lost; skip rows that are stored.
        if !waiting.is_empty() {
            let is_stored: HashSet<String> = rows.iter().map(|row| row.batch.clone()).collect();
            let waiting = waiting.into_iter().map(|(row, _)| row);
            rows.extend(waiting.filter(|row| is_within(row.at) && !is_stored.contains(&row.batch)));
        }
        let bucket = |row: LatencyRow| {
            let series = series.iter().copied().find(|series| series.as_str() == row.series)?;
            let at = Timestamp::from_micros(row.at);
            Some(LatencyBucket { at, series, label: row.label, errors: row.errors, histogram: row.buckets })
        };
        let mut buckets: Vec<LatencyBucket> = rows.into_iter().filter_map(bucket).collect();
        let pending = recorded.into_iter().filter(|(of, _, _)| series.contains(of));
        let at = Timestamp::from_micros(at);
        let bucket = |(series, label, recorded): (Series, Box<str>, Recorded)| LatencyBucket {
            at,
            series,
            label: label.into(),
            errors: recorded.errors,
            histogram: recorded.latency.to_bytes(),
        };
        buckets.extend(pending.map(bucket));
        Ok(buckets)
    }
}
