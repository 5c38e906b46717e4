//! Rows of providers, usage and usage totals.

pub(super) mod prices;

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::lease::LeaseTable;
use agentd_core::rollups::{self, Period, UsageEntry, UsageSum};
use agentd_store::{Dialect, Read, Row, StoreError, Topic, Tx, args, batch_size, row_placeholders};
use jiff::civil::Date;

use super::model::{Outcome, ProviderRow, ProviderStatus, TokenTotal, UsageRow};

/// Topic for changes to keys, base URLs and default models, not for call results.
pub(super) const PROVIDERS: Topic = Topic::new("providers");

/// Value of `day` for the all-time totals.
const ALL_TIME: &str = "";

pub(super) async fn list_providers(read: &mut Read) -> Result<Vec<ProviderRow>, StoreError> {
    let sql = "SELECT id, base_url, default_model, status, status_message, checked_at, updated_at FROM providers";
    read.fetch_all(sql, args![]).await?.iter().map(provider).collect()
}

pub(super) async fn find_provider(read: &mut Read, id: &str) -> Result<Option<ProviderRow>, StoreError> {
    let sql = "SELECT id, base_url, default_model, status, status_message, checked_at, updated_at \
               FROM providers WHERE id = $1";
    read.fetch_optional(sql, args![id]).await?.as_ref().map(provider).transpose()
}

fn provider(row: &Row) -> Result<ProviderRow, StoreError> {
    let status: Option<String> = row.get("status")?;
    let outcome = match (status.as_deref().and_then(ProviderStatus::parse), row.get("checked_at")?) {
        (Some(status), Some(checked_at)) => {
            Some(Outcome { status, message: row.get("status_message")?, checked_at, file: None })
        }
        _ => None,
    };
    Ok(ProviderRow {
        id: row.get("id")?,
        base_url: row.get("base_url")?,
        default_model: row.get("default_model")?,
        outcome,
        updated_at: row.get("updated_at")?,
    })
}

/// Clears the last result, which belongs to another key.
pub(super) async fn upsert_provider(tx: &mut Tx, row: &ProviderRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO providers (id, base_url, default_model, updated_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (id) DO UPDATE SET base_url = excluded.base_url, default_model = excluded.default_model, \
         status = NULL, status_message = NULL, checked_at = NULL, updated_at = excluded.updated_at",
        args![&row.id, row.base_url.as_deref(), row.default_model.as_deref(), row.updated_at],
    )
    .await?;
    tx.touch(PROVIDERS);
    Ok(())
}

pub(super) async fn delete_provider(tx: &mut Tx, id: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM providers WHERE id = $1", args![id]).await?;
    tx.touch(PROVIDERS);
    Ok(())
}

pub(super) async fn update_outcome(tx: &mut Tx, id: &str, outcome: &Outcome) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE providers SET status = $2, status_message = $3, checked_at = $4 WHERE id = $1 AND updated_at <= $4",
        args![id, outcome.status.as_str(), outcome.message.as_deref(), outcome.checked_at],
    )
    .await?;
    Ok(())
}

pub(super) async fn insert_usage(tx: &mut Tx, row: &UsageRow) -> Result<(), StoreError> {
    let (call, usage) = (&row.call, &row.call.usage);
    tx.execute(
        "INSERT INTO usage (id, at, day, provider, model, agent_id, conversation_id, session_id, input_tokens, \
         output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, source, cost_micro_usd, project_id, origin, key_id) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
        args![
            row.id.as_str(),
            row.at,
            row.day.to_string(),
            &call.provider,
            &call.model,
            call.agent_id.as_deref(),
            call.conversation_id.as_deref(),
            call.session_id.as_deref(),
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
            row.source(),
            row.cost_micro_usd,
            call.project_id.as_deref(),
            call.origin,
            call.key_id.as_deref()
        ],
    )
    .await?;
    let entry = UsageEntry {
        at: row.at,
        model: &call.model,
        agent_id: call.agent_id.as_deref().unwrap_or_default(),
        project_id: call.project_id.as_deref().unwrap_or_default(),
        origin: call.origin,
        key_id: call.key_id.as_deref().unwrap_or_default(),
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        cost_micro_usd: row.cost_micro_usd,
    };
    rollups::add_usage(tx, &entry).await?;
    add_to_totals(tx, row).await
}

/// Adds a call to the all-time totals and to the totals of its day.
async fn add_to_totals(tx: &mut Tx, row: &UsageRow) -> Result<(), StoreError> {
    let (call, usage) = (&row.call, &row.call.usage);
    tx.execute(
        "INSERT INTO usage_totals (day, provider, model, shard, calls, input_tokens, output_tokens, \
         cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_micro_usd, unpriced_calls) \
         VALUES ($1, $3, $4, $5, 1, $6, $7, $8, $9, $10, $11, $12), \
         ($2, $3, $4, $5, 1, $6, $7, $8, $9, $10, $11, $12) \
         ON CONFLICT (day, provider, model, shard) DO UPDATE SET calls = usage_totals.calls + 1, \
         input_tokens = usage_totals.input_tokens + excluded.input_tokens, \
         output_tokens = usage_totals.output_tokens + excluded.output_tokens, \
         cache_read_tokens = usage_totals.cache_read_tokens + excluded.cache_read_tokens, \
         cache_write_tokens = usage_totals.cache_write_tokens + excluded.cache_write_tokens, \
         reasoning_tokens = usage_totals.reasoning_tokens + excluded.reasoning_tokens, \
         cost_micro_usd = usage_totals.cost_micro_usd + excluded.cost_micro_usd, \
         unpriced_calls = usage_totals.unpriced_calls + excluded.unpriced_calls",
        args![
            ALL_TIME,
            row.day.to_string(),
            &call.provider,
            &call.model,
            row.shard,
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
            row.cost_micro_usd.unwrap_or(0),
            row.cost_micro_usd.is_none()
        ],
    )
    .await?;
    Ok(())
}

/// Returns input plus output tokens as (on that day, in total).
pub(super) async fn sum_tokens(read: &mut Read, day: Date) -> Result<(u64, u64), StoreError> {
    let sql = "SELECT day, CAST(SUM(input_tokens + output_tokens) AS BIGINT) AS tokens FROM usage_totals \
               WHERE day IN ($1, $2) GROUP BY day";
    let (mut today, mut total) = (0, 0);
    for row in read.fetch_all(sql, args![day.to_string(), ALL_TIME]).await? {
        let tokens = row.get("tokens")?;
        if row.get::<String>("day")? == ALL_TIME { total = tokens } else { today = tokens }
    }
    Ok((today, total))
}

/// Sums of all time, a model each, those with the most tokens first.
pub(super) async fn list_token_totals(read: &mut Read) -> Result<Vec<[TokenTotal; 5]>, StoreError> {
    let sql = "SELECT model, CAST(SUM(input_tokens) AS BIGINT) AS input, CAST(SUM(output_tokens) AS BIGINT) AS output, \
               CAST(SUM(cache_read_tokens) AS BIGINT) AS cache_read, CAST(SUM(cache_write_tokens) AS BIGINT) AS cache_write, \
               CAST(SUM(reasoning_tokens) AS BIGINT) AS reasoning FROM usage_totals WHERE day = $1 GROUP BY model \
               ORDER BY SUM(input_tokens + output_tokens) DESC, model";
    let rows = read.fetch_all(sql, args![ALL_TIME]).await?;
    let totals = |row: &Row| {
        let total = |kind: &'static str| {
            Ok::<_, StoreError>(TokenTotal { model: row.get("model")?, kind, tokens: row.get(kind)? })
        };
        Ok([total("input")?, total("output")?, total("cache_read")?, total("cache_write")?, total("reasoning")?])
    };
    rows.iter().map(totals).collect()
}

/// Sums of all time, a model each, those with the most tokens first.
pub(super) async fn list_model_totals(read: &mut Read) -> Result<Vec<(String, UsageSum)>, StoreError> {
    let sql = "SELECT model, CAST(SUM(calls) AS BIGINT) AS calls, CAST(SUM(input_tokens) AS BIGINT) AS input_tokens, \
               CAST(SUM(output_tokens) AS BIGINT) AS output_tokens, \
               CAST(SUM(cache_read_tokens) AS BIGINT) AS cache_read_tokens, \
               CAST(SUM(cache_write_tokens) AS BIGINT) AS cache_write_tokens, \
               CAST(SUM(reasoning_tokens) AS BIGINT) AS reasoning_tokens, \
               CAST(SUM(cost_micro_usd) AS BIGINT) AS cost_micro_usd, \
               CAST(SUM(unpriced_calls) AS BIGINT) AS unpriced_calls FROM usage_totals WHERE day = $1 GROUP BY model \
               ORDER BY SUM(input_tokens + output_tokens) DESC, model";
    let rows = read.fetch_all(sql, args![ALL_TIME]).await?;
    rows.iter().map(|row| Ok((row.get("model")?, UsageSum::read(row)?))).collect()
}

/// Returns the time of the last call per agent, with one index lookup each.
pub(super) async fn list_last_calls(read: &mut Read, agents: &[&str]) -> Result<Vec<(String, Timestamp)>, StoreError> {
    let mut last = Vec::new();
    let mut left = agents;
    while !left.is_empty() {
        let (batch, rest) = left.split_at(batch_size(left.len()));
        let mut args = args![];
        batch.iter().for_each(|agent| {
            args.push(*agent);
        });
        let sql = format!(
            "WITH asked (id) AS (VALUES {}) \
             SELECT asked.id AS id, (SELECT MAX(usage.at) FROM usage WHERE usage.agent_id = asked.id) AS at FROM asked",
            row_placeholders(1, 1, batch.len())
        );
        for row in read.fetch_all(sql, args).await? {
            if let Some(at) = row.get("at")? {
                last.push((row.get("id")?, at));
            }
        }
        left = rest;
    }
    Ok(last)
}

/// Returns the usage of calls that ended in a period, computed from the calls themselves.
pub(super) async fn sum_calls(read: &mut Read, period: Period) -> Result<UsageSum, StoreError> {
    const SUMS: [&str; 6] = [
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
        "cost_micro_usd",
    ];
    let sums = SUMS.map(|sum| format!("CAST(COALESCE(SUM({sum}), 0) AS BIGINT) AS {sum}")).join(", ");
    let sql = format!(
        "SELECT COUNT(*) AS calls, COUNT(*) - COUNT(cost_micro_usd) AS unpriced_calls, {sums} FROM usage \
         WHERE at >= $1 AND at < $2"
    );
    let row = read.fetch_one(sql, args![period.from, period.to]).await?;
    Ok(UsageSum {
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

/// Notified when reserved tokens are settled.
pub(crate) const RESERVATIONS: Topic = Topic::new("budget_reservations");

/// Serializes reservations until the end of this transaction. Later reads see all previously committed reservations.
pub(crate) async fn lock_budget(tx: &mut Tx) -> Result<(), StoreError> {
    if tx.dialect() == Dialect::Postgres {
        let sql = "INSERT INTO budget_turn (id, taken) VALUES (1, 1) \
                   ON CONFLICT (id) DO UPDATE SET taken = budget_turn.taken + 1";
        tx.execute(sql, args![]).await?;
    }
    Ok(())
}

pub(crate) async fn delete_expired(tx: &mut Tx, now: Timestamp) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM budget_reservations WHERE expires_at < $1", args![now]).await
}

/// Returns tokens reserved for other calls as (in total, of this agent).
pub(crate) async fn sum_reserved(read: &mut Read, id: &str, agent_id: &str) -> Result<(u64, u64), StoreError> {
    let sql = "SELECT CAST(COALESCE(SUM(tokens), 0) AS BIGINT) AS reserved, \
               CAST(COALESCE(SUM(CASE WHEN agent_id = $2 THEN tokens ELSE 0 END), 0) AS BIGINT) AS of_agent \
               FROM budget_reservations WHERE id <> $1";
    let row = read.fetch_one(sql, args![id, agent_id]).await?;
    Ok((row.get("reserved")?, row.get("of_agent")?))
}

pub(crate) async fn put_reservation(
    tx: &mut Tx,
    id: &str,
    agent_id: &str,
    tokens: u64,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO budget_reservations (id, agent_id, tokens, expires_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (id) DO UPDATE SET tokens = excluded.tokens, expires_at = excluded.expires_at";
    tx.execute(sql, args![id, agent_id, tokens, expires_at]).await.map(|_| ())
}

pub(crate) async fn delete_reservation(tx: &mut Tx, id: &str) -> Result<(), StoreError> {
    if tx.execute("DELETE FROM budget_reservations WHERE id = $1", args![id]).await? > 0 {
        tx.touch(RESERVATIONS);
    }
    Ok(())
}

pub(crate) async fn delete_reservations(tx: &mut Tx) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM budget_reservations", args![]).await
}

static LEASES: LeaseTable = LeaseTable { table: "budget_reservations", key: "id", until: "expires_at", held: "1 = 1" };

pub(crate) async fn renew_reservations(tx: &mut Tx, ids: &[String], length: Duration) -> Result<(), StoreError> {
    LEASES.extend_some(tx, None, ids, length).await
}
