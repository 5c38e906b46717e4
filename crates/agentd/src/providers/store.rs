//! SQL of providers, usage rows and their running totals.

use agentd_base::Timestamp;
use agentd_llm::{Usage, UsageSource};
use agentd_store::{Dialect, Read, Row, StoreError, Tx, args};

use super::model::ModelCall;

/// How many rows a day's total is spread over where several daemons write at once.
const SHARDS: u8 = 16;

#[derive(Debug, Clone)]
pub(super) struct ProviderRow {
    pub id: String,
    pub base_url: Option<String>,
    pub default_model: Option<String>,
}

fn provider_row(row: &Row) -> Result<ProviderRow, StoreError> {
    Ok(ProviderRow { id: row.get("id")?, base_url: row.get("base_url")?, default_model: row.get("default_model")? })
}

pub(super) async fn list_providers(read: &mut Read) -> Result<Vec<ProviderRow>, StoreError> {
    let rows = read.fetch_all("SELECT id, base_url, default_model FROM providers ORDER BY id", args![]).await?;
    rows.iter().map(provider_row).collect()
}

pub(super) async fn find_provider(read: &mut Read, id: &str) -> Result<Option<ProviderRow>, StoreError> {
    let row = read.fetch_optional("SELECT id, base_url, default_model FROM providers WHERE id = $1", args![id]).await?;
    row.as_ref().map(provider_row).transpose()
}

pub(super) async fn put_provider(tx: &mut Tx, row: &ProviderRow, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO providers (id, base_url, default_model, updated_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (id) DO UPDATE SET base_url = excluded.base_url, default_model = excluded.default_model, \
         updated_at = excluded.updated_at",
        args![&row.id, row.base_url.as_deref(), row.default_model.as_deref(), now],
    )
    .await?;
    Ok(())
}

pub(super) async fn delete_provider(tx: &mut Tx, id: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM providers WHERE id = $1", args![id]).await?;
    Ok(())
}

fn source_name(source: UsageSource) -> &'static str {
    match source {
        UsageSource::Provider => "provider",
        UsageSource::Estimated => "estimated",
        UsageSource::Missing => "missing",
    }
}

pub(super) async fn insert_usage(
    tx: &mut Tx,
    call: &ModelCall,
    day: &str,
    cost_micro_usd: Option<i64>,
) -> Result<(), StoreError> {
    let id = format!("use_{}", tx.ids().next_ulid());
    let now = tx.clock().now();
    let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, source } =
        call.usage;
    tx.execute(
        "INSERT INTO usage (id, at, provider, model, agent_id, conversation_id, session_id, input_tokens, \
         output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, source, cost_micro_usd) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        args![
            &id,
            now,
            &call.provider,
            &call.model,
            call.agent_id.as_deref(),
            call.conversation_id.as_deref(),
            call.session_id.as_deref(),
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens,
            source_name(source),
            cost_micro_usd
        ],
    )
    .await?;
    let shard = match tx.dialect() {
        Dialect::Sqlite => 0,
        Dialect::Postgres => id.bytes().last().unwrap_or_default() % SHARDS,
    };
    tx.execute(
        "INSERT INTO usage_totals (day, provider, model, shard, calls, input_tokens, output_tokens, cost_micro_usd) \
         VALUES ($1, $2, $3, $4, 1, $5, $6, $7) \
         ON CONFLICT (day, provider, model, shard) DO UPDATE SET calls = usage_totals.calls + 1, \
         input_tokens = usage_totals.input_tokens + excluded.input_tokens, \
         output_tokens = usage_totals.output_tokens + excluded.output_tokens, \
         cost_micro_usd = usage_totals.cost_micro_usd + excluded.cost_micro_usd",
        args![
            day,
            &call.provider,
            &call.model,
            i64::from(shard),
            input_tokens,
            output_tokens,
            cost_micro_usd.unwrap_or_default()
        ],
    )
    .await?;
    Ok(())
}

/// Tokens in and out of a day, or of all days.
pub(super) async fn tokens_used(read: &mut Read, day: Option<&str>) -> Result<u64, StoreError> {
    let row = match day {
        Some(day) => {
            let sql = "SELECT CAST(COALESCE(SUM(input_tokens + output_tokens), 0) AS BIGINT) AS used \
                       FROM usage_totals WHERE day = $1";
            read.fetch_one(sql, args![day]).await?
        }
        None => {
            let sql = "SELECT CAST(COALESCE(SUM(input_tokens + output_tokens), 0) AS BIGINT) AS used FROM usage_totals";
            read.fetch_one(sql, args![]).await?
        }
    };
    Ok(u64::try_from(row.get::<i64>("used")?).unwrap_or_default())
}

/// Model, input and output tokens, in the order in which the models were first used.
pub(super) async fn totals_by_model(read: &mut Read) -> Result<Vec<(String, u64, u64)>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT model, CAST(SUM(input_tokens) AS BIGINT) AS input, CAST(SUM(output_tokens) AS BIGINT) AS output \
             FROM usage_totals GROUP BY model ORDER BY MIN(day), model",
            args![],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let figure = |value: i64| u64::try_from(value).unwrap_or_default();
            Ok((row.get("model")?, figure(row.get("input")?), figure(row.get("output")?)))
        })
        .collect()
}
