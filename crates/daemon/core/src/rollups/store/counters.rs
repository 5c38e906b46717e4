//! SQL of counters.

use agentd_base::Timestamp;
use agentd_store::{Args, Read, StoreError, Tx, args, batch_size, in_list, row_placeholders};

use super::{Compaction, MINUTE, QUARTER, shard, start_of};
use crate::rollups::counter::Counter;
use crate::rollups::period::Period;

/// Adds to counters in the caller's transaction; each entry has a counter, a label and a count.
///
/// # Errors
/// `StoreError` if a write fails.
pub async fn count(tx: &mut Tx, counted: &[(Counter, &str, u64)]) -> Result<(), StoreError> {
    let (now, shard) = (tx.clock().now(), shard(tx));
    // Always in the same order to avoid deadlocks, and without duplicates, because a statement cannot upsert a row
    // twice.
    let mut counted: Vec<(Counter, &str, u64)> = counted.iter().copied().filter(|(_, _, count)| *count > 0).collect();
    counted.sort_unstable();
    counted.dedup_by(|next, kept| {
        let is_same = (next.0, next.1) == (kept.0, kept.1);
        kept.2 += if is_same { next.2 } else { 0 };
        is_same
    });
    let mut rest = counted.as_slice();
    while !rest.is_empty() {
        let (batch, left) = rest.split_at(batch_size(rest.len()));
        let mut args = args![];
        for (counter, label, count) in batch {
            // Labelled counters are never queried by the minute, and there are many of them.
            let span = if label.is_empty() { MINUTE } else { QUARTER };
            args.push(counter.as_str());
            args.push(start_of(now, span));
            args.push(span);
            args.push(*label);
            args.push(shard);
            args.push(*count);
        }
        let sql = format!(
            "INSERT INTO counters (name, at, span, label, shard, count) VALUES {} \
             ON CONFLICT (name, at, span, label, shard) DO UPDATE SET count = counters.count + excluded.count",
            row_placeholders(1, 6, batch.len())
        );
        tx.execute(sql, args).await?;
        rest = left;
    }
    Ok(())
}

/// Merges the counters of a bucket.
pub(crate) async fn compact_counters(tx: &mut Tx, compaction: Compaction) -> Result<u64, StoreError> {
    let Compaction { span, from, to, target_span } = compaction;
    tx.execute(
        "INSERT INTO counters (name, at, span, label, shard, count) \
         SELECT name, $1, $2, label, 0, CAST(SUM(count) AS BIGINT) FROM counters \
         WHERE span = $3 AND at >= $4 AND at < $5 GROUP BY name, label \
         ON CONFLICT (name, at, span, label, shard) DO UPDATE SET count = counters.count + excluded.count",
        args![compaction.at(), target_span, span, from, to],
    )
    .await?;
    tx.execute("DELETE FROM counters WHERE span = $1 AND at >= $2 AND at < $3", args![span, from, to]).await
}

fn names(args: &mut Args, counters: &[Counter]) -> String {
    in_list(args, &counters.iter().map(|counter| counter.as_str()).collect::<Vec<_>>())
}

/// Sums counters in a period, by counter and label.
pub(crate) async fn sum_counters(
    read: &mut Read,
    period: Period,
    counters: &[Counter],
) -> Result<Vec<(Counter, String, u64)>, StoreError> {
    let mut args = args![period.from, period.to];
    let sql = format!(
        "SELECT name, label, CAST(SUM(count) AS BIGINT) AS count FROM counters \
         WHERE name IN ({}) AND at >= $1 AND at < $2 GROUP BY name, label",
        names(&mut args, counters)
    );
    let mut sums = Vec::new();
    for row in read.fetch_all(sql, args).await? {
        let name: String = row.get("name")?;
        if let Some(counter) = counters.iter().copied().find(|counter| counter.as_str() == name) {
            sums.push((counter, row.get("label")?, row.get("count")?));
        }
    }
    Ok(sums)
}

/// Sums counters over all labels, by the time of their buckets.
pub(crate) async fn list_counters(
    read: &mut Read,
    period: Period,
    counters: &[Counter],
) -> Result<Vec<(Timestamp, Counter, u64)>, StoreError> {
    let mut args = args![period.from, period.to];
    let sql = format!(
        "SELECT at, name, CAST(SUM(count) AS BIGINT) AS count FROM counters \
         WHERE name IN ({}) AND at >= $1 AND at < $2 GROUP BY name, at",
        names(&mut args, counters)
    );
    let mut listed = Vec::new();
    for row in read.fetch_all(sql, args).await? {
        let name: String = row.get("name")?;
        if let Some(counter) = counters.iter().copied().find(|counter| counter.as_str() == name) {
            listed.push((row.get("at")?, counter, row.get("count")?));
        }
    }
    Ok(listed)
}
