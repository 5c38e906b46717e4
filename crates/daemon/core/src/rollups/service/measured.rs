//! Storing what was recorded, and reading it.

use std::collections::HashSet;

use agentd_base::Timestamp;
use agentd_store::{StoreError, Tx};

use super::{Rollups, Unstored};
use crate::rollups::period::Period;
use crate::rollups::store::{self, LatencyRow, MINUTE};
use crate::runtime::{Recorded, Series};

/// Rows that wait because the database is away; the oldest go first.
const MAX_WAITING: usize = 20_000;

/// What was measured in the bucket that stands there.
#[derive(Debug, Clone)]
pub struct LatencyBucket {
    pub at: Timestamp,
    pub series: Series,
    pub label: String,
    pub errors: u64,
    /// As [`Latency::to_bytes`](crate::runtime::Latency::to_bytes) makes it: a period may have thousands.
    pub histogram: Vec<u8>,
}

impl Rollups {
    /// When the minute is over that is being recorded, if anything is. At once where the clock was set back to before
    /// it, so that what is recorded now does not wait for it.
    pub(crate) fn minute_ends(&self) -> Option<Timestamp> {
        let minute = self.0.unstored.lock().minute?;
        let now = self.now();
        let is_ahead = minute > store::start_of(now, MINUTE);
        Some(if is_ahead { now } else { Timestamp::from_micros(minute + MINUTE * 1_000_000) })
    }

    /// Takes from the recorder what belongs to minutes that are over.
    fn take_recorded(&self, is_last: bool) -> Vec<(LatencyRow, u64)> {
        let now = store::start_of(self.now(), MINUTE);
        let mut unstored = self.0.unstored.lock();
        let has_news = self.0.recorder.has_news();
        match unstored.minute {
            None if has_news && !is_last => unstored.minute = Some(now),
            Some(minute) if minute == now && !is_last => {}
            None if !has_news => {}
            minute => {
                // A name of its own: were the clock set back, a minute would come twice.
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
                unstored.rows.extend(taken);
                let excess = unstored.rows.len().saturating_sub(MAX_WAITING);
                unstored.rows.drain(..excess);
                unstored.minute = None;
                unstored.moves += 1;
            }
        }
        unstored.rows.clone()
    }

    /// Stores what was recorded in minutes that are over; with `is_last`, in this one too. Answers how many rows.
    ///
    /// # Errors
    /// The database is away; nothing is lost then.
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
        // What came meanwhile is behind them, what was too much is gone from before them.
        let mut unstored = self.0.unstored.lock();
        let end = unstored.rows.iter().rposition(|(row, _)| row.batch == last).map_or(0, |last| last + 1);
        unstored.rows.drain(..end);
        unstored.moves += 1;
        Ok(stored)
    }

    /// How long things took in a period, what is not stored yet included.
    ///
    /// # Errors
    /// The database is away.
    pub async fn latencies(&self, period: Period, series: &[Series]) -> Result<Vec<LatencyBucket>, StoreError> {
        let names: Vec<&str> = series.iter().map(|series| series.as_str()).collect();
        let is_within = |at: i64| (period.from.as_micros()..period.to.as_micros()).contains(&at);
        let this_minute = |unstored: &Unstored| unstored.minute.unwrap_or_else(|| store::start_of(self.now(), MINUTE));
        let (mut rows, waiting, at, recorded) = loop {
            let moves = self.0.unstored.lock().moves;
            let rows = store::list_latencies(&mut self.0.db.read().await?, period, &names).await?;
            let unstored = self.0.unstored.lock();
            // Once a minute something is stored meanwhile, and would be missing or there twice.
            if unstored.moves == moves {
                let at = this_minute(&unstored);
                let recorded = if is_within(at) { self.0.recorder.load() } else { Vec::new() };
                break (rows, unstored.rows.clone(), at, recorded);
            }
        };
        // Of a write whose answer was lost.
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
        let unstored = recorded.into_iter().filter(|(of, _, _)| series.contains(of));
        let at = Timestamp::from_micros(at);
        let bucket = |(series, label, recorded): (Series, Box<str>, Recorded)| LatencyBucket {
            at,
            series,
            label: label.into(),
            errors: recorded.errors,
            histogram: recorded.latency.to_bytes(),
        };
        buckets.extend(unstored.map(bucket));
        Ok(buckets)
    }
}
