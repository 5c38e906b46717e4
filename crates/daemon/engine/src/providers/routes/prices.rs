//! Routes under `/api/monitoring/prices`.

use agentd_base::{FieldProblem, Problems};
use agentd_web::{Answer, Json, Validate, Validated};
use axum::extract::State;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::providers::error::ProviderError;
use crate::providers::model::{LongPrompt, Price, PriceOrigin};
use crate::providers::service::Providers;

/// Effective prices.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PriceList {
    /// Prices, ordered by provider and model.
    prices: Vec<PriceView>,
    /// Number of prices.
    total: usize,
}

/// Prices of a model in US dollars per million tokens.
#[derive(Debug, Serialize, ToSchema)]
struct PriceView {
    /// Provider id, for example `openai`.
    provider: String,
    /// Model name. Also applies to dated and numbered snapshots; with a trailing `*`, to all names with that prefix.
    /// The longest match wins.
    model: String,
    /// Price of input tokens.
    input: f64,
    /// Price of output tokens.
    output: f64,
    /// Price of tokens read from the prompt cache; null: the price of `input`.
    cache_read: Option<f64>,
    /// Price of tokens written to the prompt cache; null: the price of `input`.
    cache_write: Option<f64>,
    /// Price of reasoning tokens; null: the price of `output`.
    reasoning: Option<f64>,
    /// Prices of calls with a longer prompt; null if they cost the same.
    #[schema(value_type = Option<LongPromptPrice>)]
    long_prompt: Option<LongPromptPrice>,
    /// Context window in tokens; null if unknown.
    context_window: Option<u64>,
    /// Maximum output of the model in one call, in tokens; null if unknown.
    max_output_tokens: Option<u64>,
    /// Date of the source, as `YYYY-MM-DD`; null if unknown.
    #[schema(value_type = Option<String>, format = Date)]
    as_of: Option<Date>,
    /// Source of the price, for example a URL; null if unknown.
    source: Option<String>,
    /// Table that contains the price.
    origin: PriceOrigin,
}

/// Prices of calls whose prompt exceeds `above` tokens, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub(super) struct LongPromptPrice {
    /// Prompt length in tokens, 1 to 1,000,000,000; the prices apply to calls with longer prompts.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    above: u64,
    /// Price of input tokens, 0 to 100,000.
    #[schema(minimum = 0, maximum = 100_000)]
    input: f64,
    /// Price of output tokens, including reasoning, 0 to 100,000.
    #[schema(minimum = 0, maximum = 100_000)]
    output: f64,
    /// Price of tokens read from the prompt cache, 0 to 100,000. Default: the price of `input`.
    #[schema(minimum = 0, maximum = 100_000)]
    cache_read: Option<f64>,
    /// Price of tokens written to the prompt cache, 0 to 100,000. Default: the price of `input`.
    #[schema(minimum = 0, maximum = 100_000)]
    cache_write: Option<f64>,
}

/// Complete list of price overrides.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct PriceUpdate {
    /// All overrides, up to 2,000. Existing overrides that are not included are removed.
    #[schema(max_items = 2000)]
    prices: Vec<PriceFields>,
}

/// Prices of a model in US dollars per million tokens.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct PriceFields {
    /// Provider id, for example `openai`, or `local`.
    #[schema(min_length = 1, max_length = 64)]
    provider: String,
    /// Model name, 1 to 200 characters without white space. With a trailing `*`, it applies to all names with that
    /// prefix.
    #[schema(min_length = 1, max_length = 200)]
    model: String,
    /// Price of input tokens, 0 to 100,000.
    #[schema(minimum = 0, maximum = 100_000)]
    input: f64,
    /// Price of output tokens, 0 to 100,000.
    #[schema(minimum = 0, maximum = 100_000)]
    output: f64,
    /// Price of tokens read from the prompt cache, 0 to 100,000. Default: the price of `input`.
    #[schema(minimum = 0, maximum = 100_000)]
    cache_read: Option<f64>,
    /// Price of tokens written to the prompt cache, 0 to 100,000. Default: the price of `input`.
    #[schema(minimum = 0, maximum = 100_000)]
    cache_write: Option<f64>,
    /// Price of reasoning tokens, 0 to 100,000. Default: the price of `output`.
    #[schema(minimum = 0, maximum = 100_000)]
    reasoning: Option<f64>,
    /// Prices of calls with a longer prompt. Default: the same prices.
    #[schema(value_type = Option<LongPromptPrice>)]
    long_prompt: Option<LongPromptPrice>,
    /// Context window in tokens, 1 to 1,000,000,000. Default: unknown.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    context_window: Option<u64>,
    /// Maximum output of the model in one call, in tokens, 1 to 1,000,000,000. Default: unknown.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    max_output_tokens: Option<u64>,
    /// Date of the source, as `YYYY-MM-DD`. Default: today.
    #[schema(value_type = Option<String>, max_length = 10)]
    as_of: Option<String>,
    /// Source of the price, for example a URL, up to 500 characters. Default: none.
    #[schema(max_length = 500)]
    source: Option<String>,
}

impl PriceFields {
    /// Converts the fields to a price and its problems.
    fn read(self) -> (Price, Vec<FieldProblem>) {
        let mut problems = Problems::new();
        let as_of = match self.as_of.as_deref().map(str::parse::<Date>) {
            None => None,
            Some(Ok(day)) => Some(day),
            Some(Err(_)) => {
                problems.add("as_of", "must be a date such as 2026-01-31");
                None
            }
        };
        let price = Price {
            provider: self.provider,
            model: self.model,
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            reasoning: self.reasoning,
            long_prompt: self.long_prompt.map(LongPrompt::from),
            context_window: self.context_window,
            max_output_tokens: self.max_output_tokens,
            as_of,
            source: self.source.map(|source| source.trim().to_owned()).filter(|source| !source.is_empty()),
        };
        price.check(&mut problems);
        (price, problems.into_result().err().unwrap_or_default())
    }
}

impl PriceUpdate {
    /// Converts the update to prices, or to all problems.
    fn read(self) -> Result<Vec<Price>, Vec<FieldProblem>> {
        let (mut prices, mut problems): (Vec<Price>, _) = (Vec::with_capacity(self.prices.len()), Problems::new());
        for (index, fields) in self.prices.into_iter().enumerate() {
            let (price, wrong) = fields.read();
            for problem in wrong {
                problems.add(format!("prices[{index}].{}", problem.field), problem.message);
            }
            if let Some(other) = prices.iter().position(|other| other.has_same_key(&price)) {
                let message = format!("is a duplicate of prices[{other}]");
                problems.add(format!("prices[{index}].model"), message);
            }
            prices.push(price);
        }
        problems.into_result().map(|()| prices)
    }
}

impl<S: Sync> Validate<S> for PriceUpdate {
    async fn validate(self, _: &S) -> Vec<FieldProblem> {
        self.read().err().unwrap_or_default()
    }
}

impl From<LongPromptPrice> for LongPrompt {
    fn from(price: LongPromptPrice) -> Self {
        let LongPromptPrice { above, input, output, cache_read, cache_write } = price;
        Self { above, input, output, cache_read, cache_write }
    }
}

impl From<LongPrompt> for LongPromptPrice {
    fn from(price: LongPrompt) -> Self {
        let LongPrompt { above, input, output, cache_read, cache_write } = price;
        Self { above, input, output, cache_read, cache_write }
    }
}

impl From<Vec<(PriceOrigin, Price)>> for PriceList {
    fn from(prices: Vec<(PriceOrigin, Price)>) -> Self {
        let view = |(origin, price): (PriceOrigin, Price)| PriceView {
            provider: price.provider,
            model: price.model,
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
            reasoning: price.reasoning,
            long_prompt: price.long_prompt.map(LongPromptPrice::from),
            context_window: price.context_window,
            max_output_tokens: price.max_output_tokens,
            as_of: price.as_of,
            source: price.source,
            origin,
        };
        Self { total: prices.len(), prices: prices.into_iter().map(view).collect() }
    }
}

/// List model prices
///
/// Returns the shipped prices, overridden by `prices.toml` in the data directory and by prices set with PUT. A model
/// without a price is not priced: its calls cost `null`.
#[utoipa::path(get, path = "/api/monitoring/prices", tag = "monitoring", responses((status = 200, body = PriceList)))]
pub(super) async fn list_prices(State(providers): State<Providers>) -> Answer<PriceList> {
    Ok(Json(providers.list_prices().await?.into()))
}

/// Set price overrides
///
/// Replaces all overrides; `{"prices": []}` removes them. Applies to calls that start afterwards, on all replicas.
/// Prices that equal the effective ones are not stored, so the response of GET can be edited and sent back.
#[utoipa::path(put, path = "/api/monitoring/prices", tag = "monitoring", request_body = PriceUpdate,
    responses((status = 200, body = PriceList)))]
pub(super) async fn set_prices(
    State(providers): State<Providers>,
    Validated(Json(update)): Validated<Json<PriceUpdate>>,
) -> Answer<PriceList> {
    let prices = update.read().map_err(ProviderError::Invalid)?;
    Ok(Json(providers.set_prices(prices).await?.into()))
}
