//! What a call costs: a table that ships with the daemon, and one of the owner's that goes before it.

use std::path::Path;

use agentd_llm::Usage;
use serde::Deserialize;

use super::error::ProviderError;
use super::model::LOCAL;

const SHIPPED: &str = include_str!("prices.toml");

/// US dollars per million tokens, which is micro-dollars per token.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    provider: String,
    model: String,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    price: Vec<Price>,
}

/// The prices in force.
#[derive(Debug, Clone, Default)]
pub struct Prices(Vec<Price>);

impl Prices {
    /// The shipped table, and before it `prices.toml` in the data directory, if there is one.
    ///
    /// # Errors
    /// The owner's file is not valid.
    pub fn load(data_dir: &Path) -> Result<Self, ProviderError> {
        let shipped = parse(SHIPPED).map_err(ProviderError::Prices)?;
        let own = match std::fs::read_to_string(data_dir.join("prices.toml")) {
            Ok(text) => parse(&text).map_err(ProviderError::Prices)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(ProviderError::Prices(error.to_string())),
        };
        Ok(Self(own.into_iter().chain(shipped).collect()))
    }

    /// Cost in micro-dollars; `None` when the price is not known.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "money is rounded to micro-dollars"
    )]
    pub fn cost_micro_usd(&self, provider: &str, model: &str, usage: &Usage) -> Option<i64> {
        if provider == LOCAL {
            return Some(0);
        }
        let price = self.0.iter().find(|price| price.provider == provider && is_same_model(&price.model, model))?;
        let cached = usage.cache_read_tokens + usage.cache_write_tokens;
        let plain = usage.input_tokens.saturating_sub(cached) as f64 * price.input;
        let read = usage.cache_read_tokens as f64 * price.cache_read.unwrap_or(price.input);
        let written = usage.cache_write_tokens as f64 * price.cache_write.unwrap_or(price.input);
        let output = usage.output_tokens as f64 * price.output;
        Some((plain + read + written + output).round() as i64)
    }
}

fn parse(text: &str) -> Result<Vec<Price>, String> {
    let table: Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    for price in &table.price {
        let figures = [Some(price.input), Some(price.output), price.cache_read, price.cache_write];
        if figures.into_iter().flatten().any(|figure| !figure.is_finite() || figure < 0.0) {
            return Err(format!("the prices of {}/{} must be 0 or more", price.provider, price.model));
        }
    }
    Ok(table.price)
}

/// The same name, or that name with a date or `latest` behind it. Anything else is another model:
/// `gpt-4o-mini` is no `gpt-4o`.
fn is_same_model(listed: &str, used: &str) -> bool {
    let Some(rest) = used.strip_prefix(listed) else { return false };
    let Some(suffix) = rest.strip_prefix('-') else { return rest.is_empty() };
    let is_date = !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    suffix == "latest" || is_date && suffix.bytes().filter(u8::is_ascii_digit).count() >= 4
}

#[cfg(test)]
mod tests {
    use agentd_llm::UsageSource;

    use super::*;

    fn usage(input_tokens: u64, output_tokens: u64, cache_read_tokens: u64) -> Usage {
        Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
            source: UsageSource::Provider,
        }
    }

    #[test]
    fn the_shipped_table_is_valid_and_counts_cached_tokens_once() {
        let folder = tempfile::tempdir().unwrap();
        let prices = Prices::load(folder.path()).unwrap();
        // 600 at 2.5, 400 cached at 1.25, 100 out at 10.
        let cost = prices.cost_micro_usd("openai", "gpt-4o-2024-11-20", &usage(1000, 100, 400));
        assert_eq!(cost, Some(3000));
        assert_eq!(prices.cost_micro_usd("openai", "gpt-4o-imagined", &usage(1000, 100, 0)), None);
        assert_eq!(prices.cost_micro_usd("local", "any.gguf", &usage(1000, 100, 0)), Some(0));
    }

    #[test]
    fn a_variant_is_another_model() {
        assert!(is_same_model("gpt-4o", "gpt-4o"));
        assert!(is_same_model("mistral-medium", "mistral-medium-latest"));
        assert!(is_same_model("mistral-medium", "mistral-medium-2508"));
        for other in ["gpt-4o-mini", "gpt-4o-", "gpt-4ox", "gpt-4", "gpt-4o-2"] {
            assert!(!is_same_model("gpt-4o", other), "{other}");
        }
    }

    #[test]
    fn the_owners_prices_go_first_and_must_be_valid() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prices.toml");
        std::fs::write(&file, "[[price]]\nprovider = \"openai\"\nmodel = \"gpt-4o\"\ninput = 1\noutput = 1\n").unwrap();
        let prices = Prices::load(folder.path()).unwrap();
        assert_eq!(prices.cost_micro_usd("openai", "gpt-4o", &usage(10, 10, 0)), Some(20));
        std::fs::write(&file, "[[price]]\nprovider = \"openai\"\nmodel = \"gpt-4o\"\ninput = -1\noutput = 1\n")
            .unwrap();
        assert!(Prices::load(folder.path()).is_err());
    }
}
