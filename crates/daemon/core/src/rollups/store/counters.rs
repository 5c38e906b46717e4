//! Counters.

use agentd_base::Timestamp;
use agentd_store::{Args, Read, StoreError, Tx, args, batch_of, in_list, rows_of};

use super::{MINUTE, QUARTER, Widening, shard, start_of};
use crate::rollups::counter::Counter;
use crate::rollups::period::Period;

/// Counts what happens in this transaction: what, its label, and how often.
///
/// # Errors
/// What the database refuses.
pub async fn count(tx: &mut Tx, counted: &[(Counter, &str, u64)]) -> Result<(), StoreError> {
    let (now, shard) = (tx.clock().now(), shard(tx));
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
            // Nobody asks for those with labels by the minute, and they are many.
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
            rows_of(1, 6, batch.len())
        );
        tx.execute(sql, args).await?;
        rest = left;
    }
    Ok(())
}

/// Puts rows together.
pub(crate) async fn widen_counters(tx: &mut Tx, widening: Widening) -> Result<u64, StoreError> {
    let Widening { span, from, to, wider } = widening;
    tx.execute(
        "INSERT INTO counters (name, at, span, label, shard, count) \
         SELECT name, $1, $2, label, 0, CAST(SUM(count) AS BIGINT) FROM counters \
         WHERE span = $3 AND at >= $4 AND at < $5 GROUP BY name, label \
         ON CONFLICT (name, at, span, label, shard) DO UPDATE SET count = counters.count + excluded.count",
        args![widening.at(), wider, span, from, to],
    )
    .await?;
    tx.execute("DELETE FROM counters WHERE span = $1 AND at >= $2 AND at < $3", args![span, from, to]).await
}

fn names(args: &mut Args, counters: &[Counter]) -> String {
    in_list(args, &counters.iter().map(|counter| counter.as_str()).collect::<Vec<_>>())
}

/// The sums of some counters in a period by their labels.
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

/// The sums of some counters, whatever their labels, by where their rows stand.
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
