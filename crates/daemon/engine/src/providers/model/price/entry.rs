//! Entry of a price table and its validation.

use agentd_base::Problems;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// Maximum valid price in US dollars per million tokens.
const MAX_PRICE: f64 = 100_000.0;
/// Upper bound for token counts in a table.
const MAX_TOKENS: u64 = 1_000_000_000;
const MAX_MODEL_CHARACTERS: usize = 200;
const MAX_SOURCE_CHARACTERS: usize = 500;

/// Price of a model's tokens in US dollars per million, which equals micro-dollars per token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub provider: String,
    pub model: String,
    pub input: f64,
    pub output: f64,
    /// Default: the price of input.
    pub cache_read: Option<f64>,
    /// Default: the price of input.
    pub cache_write: Option<f64>,
    /// Default: the price of output.
    pub reasoning: Option<f64>,
    /// Different prices for long prompts.
    pub long_prompt: Option<LongPrompt>,
    /// Context window in tokens.
    pub context_window: Option<u64>,
    /// Maximum output of the model in one call, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Date of the source.
    pub as_of: Option<Date>,
    /// Source of the price.
    pub source: Option<String>,
}

/// Prices of calls whose prompt exceeds `above` tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrompt {
    pub above: u64,
    pub input: f64,
    pub output: f64,
    pub cache_read: Option<f64>,
    pub cache_write: Option<f64>,
}

/// Rates per kind of token for one call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    pub(super) input: f64,
    pub(super) output: f64,
    pub(super) cache_read: f64,
    pub(super) cache_write: f64,
    pub(super) reasoning: f64,
}

impl Price {
    /// Returns the rates for a prompt of `prompt_tokens` tokens.
    pub(super) fn rates(&self, prompt_tokens: u64) -> Rates {
        match self.long_prompt.filter(|long| prompt_tokens > long.above) {
            Some(long) => Rates {
                input: long.input,
                output: long.output,
                cache_read: long.cache_read.unwrap_or(long.input),
                cache_write: long.cache_write.unwrap_or(long.input),
                reasoning: long.output,
            },
            None => Rates {
                input: self.input,
                output: self.output,
                cache_read: self.cache_read.unwrap_or(self.input),
                cache_write: self.cache_write.unwrap_or(self.input),
                reasoning: self.reasoning.unwrap_or(self.output),
            },
        }
    }

    /// Whether both entries apply to the same models.
    pub(crate) fn has_same_key(&self, other: &Self) -> bool {
        self.provider == other.provider && self.model == other.model
    }

    /// Validates the entry; adds problems under the names of the fields.
    pub(crate) fn check(&self, problems: &mut Problems) {
        if !super::super::is_provider(&self.provider) {
            problems.add("provider", format!("must be one of {}", super::super::known_ids()));
        }
        problems.require(is_model(&self.model), "model", MODEL_RULE);
        let long = self.long_prompt;
        for (field, price) in [
            ("input", Some(self.input)),
            ("output", Some(self.output)),
            ("cache_read", self.cache_read),
            ("cache_write", self.cache_write),
            ("reasoning", self.reasoning),
            ("long_prompt.input", long.map(|long| long.input)),
            ("long_prompt.output", long.map(|long| long.output)),
            ("long_prompt.cache_read", long.and_then(|long| long.cache_read)),
            ("long_prompt.cache_write", long.and_then(|long| long.cache_write)),
        ] {
            let is_price = price.is_none_or(|price| (0.0..=MAX_PRICE).contains(&price));
            problems.require(is_price, field, format!("must be a price from 0 to {MAX_PRICE} dollars"));
        }
        for (field, tokens) in [
            ("context_window", self.context_window),
            ("max_output_tokens", self.max_output_tokens),
            ("long_prompt.above", long.map(|long| long.above)),
        ] {
            let is_count = tokens.is_none_or(|tokens| (1..=MAX_TOKENS).contains(&tokens));
            problems.require(is_count, field, format!("must be 1 to {MAX_TOKENS} tokens"));
        }
        let is_short = self.source.as_ref().is_none_or(|source| source.chars().count() <= MAX_SOURCE_CHARACTERS);
        problems.require(is_short, "source", format!("must have at most {MAX_SOURCE_CHARACTERS} characters"));
    }
}

const MODEL_RULE: &str =
    "must be a model name of 1 to 200 characters without white space; `*` is allowed only at its end";

fn is_model(text: &str) -> bool {
    let is_plain = |character: char| !character.is_whitespace() && !character.is_control();
    (1..=MAX_MODEL_CHARACTERS).contains(&text.chars().count())
        && text.chars().all(is_plain)
        && !text.strip_suffix('*').unwrap_or(text).contains('*')
}
