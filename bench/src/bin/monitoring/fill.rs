//! Creation of a year of model calls in the database, as the daemon would have stored them: usage rows, their sums, and
//! the buckets, which the daemon's own workers then aggregate.

use std::time::Duration;

use agentd::lifecycle::Running;
use agentd_base::Timestamp;
use agentd_bench::Outcome;
use agentd_core::runtime::{Recorder, Series};
use agentd_store::{StoreError, Tx, args};

/// One day less than requested, because midnight may pass while they are written.
pub(super) const DAYS: u64 = 364;
const DAY_US: i64 = 86_400_000_000;
const MODELS: u64 = 12;

/// Owners of the calls.
#[derive(Debug, Clone)]
pub(super) struct Owners {
    /// JSON arrays of ids.
    pub(super) agents: String,
    pub(super) projects: String,
    pub(super) keys: String,
}

/// Writes `rows` calls, evenly distributed over the days up to today.
pub(super) async fn usage(running: &Running, rows: u64, owners: &Owners) -> Outcome<()> {
    let db = &running.context().db;
    let now = db.clock().now().as_micros();
    let today = now - now.rem_euclid(DAY_US);
    for day in 0..DAYS {
        let start = today - i64::try_from(DAYS - 1 - day)? * DAY_US;
        let length = (now - start).min(DAY_US);
        let count = rows / DAYS + u64::from(day < rows % DAYS);
        let owners = owners.clone();
        db.write(async move |tx: &mut Tx| write_day(tx, day, start, length, count, &owners).await).await?;
    }
    Ok(())
}

async fn write_day(
    tx: &mut Tx,
    day: u64,
    start: i64,
    length: i64,
    count: u64,
    owners: &Owners,
) -> Result<(), StoreError> {
    let date = Timestamp::from_micros(start).to_string();
    let date = date.get(..10).unwrap_or_default().to_owned();
    let step = length / i64::try_from(count.max(1)).unwrap_or(i64::MAX);
    tx.execute(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $1), \
         agents(place, id) AS (SELECT key, value FROM json_each($2)), \
         projects(place, id) AS (SELECT key, value FROM json_each($3)), \
         keys(place, id) AS (SELECT key, value FROM json_each($4)) \
         INSERT INTO usage (id, at, day, provider, model, agent_id, input_tokens, output_tokens, cache_read_tokens, \
         cache_write_tokens, reasoning_tokens, source, cost_micro_usd, project_id, origin, key_id) \
         SELECT 'usage_' || $5 || '_' || n.i, $6 + n.i * $7, $8, 'openai', 'model-' || (n.i % $9), agents.id, \
         100 + (n.i * 7919 + $5) % 3000, 10 + (n.i * 104729 + $5) % 700, (n.i * 31) % 90, (n.i * 17) % 5, \
         (n.i * 13) % 9, 'provider', CASE WHEN n.i % 10 = 0 THEN NULL ELSE 50 + n.i % 900 END, projects.id, \
         CASE n.i % 4 WHEN 0 THEN 'chat' WHEN 1 THEN 'scheduler' WHEN 2 THEN 'webhook' ELSE 'hook' END, keys.id \
         FROM n \
         JOIN agents ON agents.place = n.i % json_array_length($2) \
         JOIN projects ON projects.place = n.i % json_array_length($3) \
         JOIN keys ON keys.place = n.i % json_array_length($4)",
        args![count, &owners.agents, &owners.projects, &owners.keys, day, start, step, &date, MODELS],
    )
    .await?;
    add_totals(tx, &date).await?;
    add_buckets(tx, start, start + DAY_US).await
}

const SUMS: &str = "COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens), \
                    SUM(reasoning_tokens), SUM(COALESCE(cost_micro_usd, 0)), SUM(cost_micro_usd IS NULL)";
const SUMMED: &str = "calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, \
                      cost_micro_usd, unpriced_calls";

/// Adds the totals of the day and of all time.
async fn add_totals(tx: &mut Tx, date: &str) -> Result<(), StoreError> {
    let add = SUMMED.split(", ").map(|sum| format!("{sum} = usage_totals.{sum} + excluded.{sum}"));
    let add = add.collect::<Vec<_>>().join(", ");
    for day in [date, ""] {
        let sql = format!(
            "INSERT INTO usage_totals (day, provider, model, shard, {SUMMED}) \
             SELECT $1, provider, model, 0, {SUMS} FROM usage WHERE day = $2 GROUP BY provider, model \
             ON CONFLICT (day, provider, model, shard) DO UPDATE SET {add}"
        );
        tx.execute(sql, args![day, date]).await?;
    }
    Ok(())
}

/// Adds quarter-hour buckets, the resolution of recent data, and further counters.
async fn add_buckets(tx: &mut Tx, from: i64, to: i64) -> Result<(), StoreError> {
    let dimensions =
        [("model", "model"), ("agent", "agent_id"), ("project", "project_id"), ("origin", "origin"), ("key", "key_id")];
    for (dimension, column) in dimensions {
        let sql = format!(
            "INSERT INTO usage_rollups (dimension, at, span, label, shard, {SUMMED}) \
             SELECT '{dimension}', (at / 900000000) * 900000000, 900, {column}, 0, {SUMS} FROM usage \
             WHERE at >= $1 AND at < $2 GROUP BY (at / 900000000) * 900000000, {column}"
        );
        tx.execute(sql, args![from, to]).await?;
    }
    let counters = [
        ("turns", "agent_id"),
        ("turns_by_origin", "origin"),
        ("tool_calls", "'tool-' || (input_tokens % 30)"),
        ("tool_calls_by_agent", "agent_id"),
    ];
    for (counter, label) in counters {
        let sql = format!(
            "INSERT INTO counters (name, at, span, label, shard, count) \
             SELECT '{counter}', (at / 900000000) * 900000000, 900, {label}, 0, COUNT(*) FROM usage \
             WHERE at >= $1 AND at < $2 GROUP BY (at / 900000000) * 900000000, {label}"
        );
        tx.execute(sql, args![from, to]).await?;
    }
    for counter in ["messages", "conversations", "runs", "deliveries", "episodes"] {
        let sql = format!(
            "INSERT INTO counters (name, at, span, label, shard, count) \
             SELECT '{counter}', (at / 60000000) * 60000000, 60, '', 0, COUNT(*) FROM usage \
             WHERE at >= $1 AND at < $2 GROUP BY (at / 60000000) * 60000000"
        );
        tx.execute(sql, args![from, to]).await?;
    }
    Ok(())
}

/// Adds histograms of a year in the resolutions used by then: minutes for two days, hours for 90, days before.
pub(super) async fn latencies(running: &Running) -> Outcome<()> {
    let recorder = Recorder::default();
    for number in 0..500_u64 {
        recorder.record(Series::Turn, "", Duration::from_micros(300 + number * number * 7), false);
    }
    let recorded = recorder.drain().pop().ok_or("nothing was recorded")?.2;
    let bytes = recorded.latency.to_bytes();
    let now = running.context().db.clock().now().as_micros();
    let today = now - now.rem_euclid(DAY_US);
    for (series, labels) in
        [("request", 40), ("requests", 1), ("turn", 1), ("first_token", 1), ("model_call", 3), ("tool", 20)]
    {
        for (span, from, count) in [
            (86_400, today - 364 * DAY_US + DAY_US / 2, 275),
            (3_600, today - 89 * DAY_US, 87 * 24),
            (60, today - 2 * DAY_US, (now - today + 2 * DAY_US) / 60_000_000),
        ] {
            let bytes = bytes.clone();
            let work = async move |tx: &mut Tx| {
                tx.execute(
                    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < $1), \
                     l(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM l WHERE i + 1 < $2) \
                     INSERT INTO latencies (series, at, span, label, batch, count, errors, buckets) \
                     SELECT $3, $4 + n.i * $5 * 1000000, $5, CASE WHEN $2 = 1 THEN '' ELSE $3 || '-' || l.i END, '', \
                     500, 3, $6 FROM n, l",
                    args![count, labels, series, from, span, bytes.clone()],
                )
                .await
            };
            running.context().db.write::<_, StoreError, _>(work).await?;
        }
    }
    Ok(())
}
