//! `/api/monitoring/prices`.

use agentd_base::{FieldProblem, Problems};
use agentd_web::{Answer, Json, Validate, Validated};
use axum::extract::State;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::providers::error::ProviderError;
use crate::providers::model::{LongPrompt, Price, PriceOrigin};
use crate::providers::service::Providers;

/// Every price in force, in the order of provider and model.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PriceList {
    prices: Vec<PriceView>,
    total: usize,
}

/// What the tokens of a model cost, in US dollars per million.
#[derive(Debug, Serialize, ToSchema)]
struct PriceView {
    provider: String,
    /// Stands for dated and numbered snapshots of the model, too; with a `*` at its end, for every name that begins
    /// so. Of those that fit, the longest counts.
    model: String,
    input: f64,
    output: f64,
    /// `null`: what `input` costs.
    cache_read: Option<f64>,
    /// `null`: what `input` costs.
    cache_write: Option<f64>,
    /// `null`: what `output` costs.
    reasoning: Option<f64>,
    /// What every token of a call costs instead when its prompt is longer than this.
    #[schema(value_type = Option<LongPromptPrice>)]
    long_prompt: Option<LongPromptPrice>,
    /// In tokens.
    context_window: Option<u64>,
    /// The most tokens that the model writes in one call.
    max_output_tokens: Option<u64>,
    /// The day on which the source said so.
    #[schema(value_type = Option<String>, format = Date)]
    as_of: Option<Date>,
    /// Where it was read.
    source: Option<String>,
    origin: PriceOrigin,
}

/// What every token of a call costs whose prompt has more than `above` tokens.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub(super) struct LongPromptPrice {
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    above: u64,
    #[schema(minimum = 0, maximum = 100_000)]
    input: f64,
    #[schema(minimum = 0, maximum = 100_000)]
    output: f64,
    #[schema(minimum = 0, maximum = 100_000)]
    cache_read: Option<f64>,
    #[schema(minimum = 0, maximum = 100_000)]
    cache_write: Option<f64>,
}

/// All prices that are set here; those set before and not named go.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct PriceUpdate {
    #[schema(max_items = 2000)]
    prices: Vec<PriceFields>,
}

/// What the tokens of a model cost, in US dollars per million.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct PriceFields {
    /// Such as `openai`, or `local`.
    #[schema(min_length = 1, max_length = 64)]
    provider: String,
    /// With a `*` at its end it stands for every name that begins so.
    #[schema(min_length = 1, max_length = 200)]
    model: String,
    #[schema(minimum = 0, maximum = 100_000)]
    input: f64,
    #[schema(minimum = 0, maximum = 100_000)]
    output: f64,
    /// Left out: what `input` costs.
    #[schema(minimum = 0, maximum = 100_000)]
    cache_read: Option<f64>,
    /// Left out: what `input` costs.
    #[schema(minimum = 0, maximum = 100_000)]
    cache_write: Option<f64>,
    /// Left out: what `output` costs.
    #[schema(minimum = 0, maximum = 100_000)]
    reasoning: Option<f64>,
    #[schema(value_type = Option<LongPromptPrice>)]
    long_prompt: Option<LongPromptPrice>,
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    context_window: Option<u64>,
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    max_output_tokens: Option<u64>,
    /// Left out: today.
    #[schema(value_type = Option<String>, max_length = 10)]
    as_of: Option<String>,
    #[schema(max_length = 500)]
    source: Option<String>,
}

impl PriceFields {
    /// The price, and what is wrong with it.
    fn read(self) -> (Price, Vec<FieldProblem>) {
        let mut problems = Problems::new();
        let as_of = match self.as_of.as_deref().map(str::parse::<Date>) {
            None => None,
            Some(Ok(day)) => Some(day),
            Some(Err(_)) => {
                problems.add("as_of", "must be a day such as 2026-01-31");
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
    /// The prices, or every bad field.
    fn read(self) -> Result<Vec<Price>, Vec<FieldProblem>> {
        let (mut prices, mut problems): (Vec<Price>, _) = (Vec::with_capacity(self.prices.len()), Problems::new());
        for (index, fields) in self.prices.into_iter().enumerate() {
            let (price, wrong) = fields.read();
            for problem in wrong {
                problems.add(format!("prices[{index}].{}", problem.field), problem.message);
            }
            if let Some(other) = prices.iter().position(|other| other.names_the_same(&price)) {
                let message = format!("is named twice, by prices[{other}] too");
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

/// What the tokens of models cost
///
/// The table that ships with the daemon, behind `prices.toml` of the data directory and behind what was set here.
/// A model that none of them names has no known price, and its calls cost `null`.
#[utoipa::path(get, path = "/api/monitoring/prices", tag = "monitoring", responses((status = 200, body = PriceList)))]
pub(super) async fn list_prices(State(providers): State<Providers>) -> Answer<PriceList> {
    Ok(Json(providers.list_prices().await?.into()))
}

/// Sets prices that go before the table that ships with the daemon
///
/// In the place of all that were set here before: `{"prices": []}` takes them away. Holds for calls that begin from
/// now on, on every replica; what earlier calls cost stays as it was. Prices that hold anyway are not kept, so the
/// answer of `GET` can be changed and sent back.
#[utoipa::path(put, path = "/api/monitoring/prices", tag = "monitoring", request_body = PriceUpdate,
    responses((status = 200, body = PriceList)))]
pub(super) async fn set_prices(
    State(providers): State<Providers>,
    Validated(Json(update)): Validated<Json<PriceUpdate>>,
) -> Answer<PriceList> {
    let prices = update.read().map_err(ProviderError::Invalid)?;
    Ok(Json(providers.set_prices(prices).await?.into()))
}
