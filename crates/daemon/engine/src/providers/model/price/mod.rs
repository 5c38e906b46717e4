//! Token prices. The default table is shipped with the daemon; `prices.toml` in the data directory overrides it, and
//! prices set through the API override both.
//!
//! A wrong price is worse than none: an entry applies to the model it names and to dated or numbered snapshots of it
//! (`-20250929`, `-2025-08-07`, `-001`, `-latest`), not to other names with the same prefix. An entry that ends in `*`
//! applies to all names with that prefix. The longest matching entry wins.

mod entry;
mod file;

use std::path::Path;
use std::sync::Arc;

use agentd_llm::{Usage, UsageSource};

pub use entry::{LongPrompt, Price};
pub use file::PriceTableError;

/// Origin of a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PriceOrigin {
    /// Shipped with the daemon.
    Shipped,
    /// `prices.toml` in the data directory.
    File,
    /// `PUT /api/monitoring/prices`.
    Override,
}

/// Prices, context windows and output limits by provider and model. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceTable {
    /// Tables in descending precedence.
    tables: Vec<(PriceOrigin, Arc<[Price]>)>,
}

impl PriceTable {
    /// Loads the shipped table, overridden by the file at `overrides` if it exists.
    ///
    /// # Errors
    /// The file is invalid or unreadable.
    pub fn load(overrides: &Path) -> Result<Self, PriceTableError> {
        let tables =
            vec![(PriceOrigin::File, file::read(overrides)?.into()), (PriceOrigin::Shipped, file::shipped()?.into())];
        Ok(Self { tables })
    }

    /// Returns the table overridden by prices set through the API.
    pub(crate) fn with_overrides(&self, overrides: Vec<Price>) -> Self {
        let mut tables = vec![(PriceOrigin::Override, overrides.into())];
        tables.extend(self.tables.iter().cloned());
        Self { tables }
    }

    /// Returns the cost of a call in micro-dollars; `None` if its price or its tokens are unknown.
    #[must_use]
    pub fn cost_micro_usd(&self, provider: &str, model: &str, usage: &Usage) -> Option<u64> {
        if usage.source == UsageSource::Missing {
            return None;
        }
        let rates = self.find(provider, model)?.rates(usage.input_tokens);
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let plain = usage.input_tokens.saturating_sub(cached);
        let reasoning = usage.reasoning_tokens.min(usage.output_tokens);
        let cost = tokens(plain) * rates.input
            + tokens(usage.cache_read_tokens) * rates.cache_read
            + tokens(usage.cache_write_tokens) * rates.cache_write
            + tokens(usage.output_tokens - reasoning) * rates.output
            + tokens(reasoning) * rates.reasoning;
        // Integers in the database are signed.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the limits given here")]
        Some(cost.round().clamp(0.0, 9e18) as u64)
    }

    /// Returns the context window of a model in tokens, if known.
    #[must_use]
    pub fn context_window(&self, provider: &str, model: &str) -> Option<u64> {
        self.find(provider, model)?.context_window
    }

    /// Returns the maximum output of a model in one call in tokens, if known.
    #[must_use]
    pub fn max_output_tokens(&self, provider: &str, model: &str) -> Option<u64> {
        self.find(provider, model)?.max_output_tokens
    }

    /// Returns all effective prices, ordered by provider and model.
    pub(crate) fn list(&self) -> Vec<(PriceOrigin, Price)> {
        let mut listed: Vec<(PriceOrigin, Price)> = Vec::new();
        for (origin, table) in &self.tables {
            let hidden = listed.len();
            let is_new = |price: &&Price| !listed[..hidden].iter().any(|(_, other)| other.has_same_key(price));
            let new: Vec<(PriceOrigin, Price)> =
                table.iter().filter(is_new).map(|price| (*origin, price.clone())).collect();
            listed.extend(new);
        }
        listed.sort_by(|(_, one), (_, other)| (&one.provider, &one.model).cmp(&(&other.provider, &other.model)));
        listed
    }

    /// Whether exactly this price is effective without overrides.
    pub(crate) fn contains(&self, price: &Price) -> bool {
        let mut own = self.tables.iter().flat_map(|(_, table)| table.iter());
        own.find(|other| other.has_same_key(price)).is_some_and(|other| other == price)
    }

    fn find(&self, provider: &str, model: &str) -> Option<&Price> {
        self.tables.iter().find_map(|(_, table)| {
            let fitting = table.iter().filter(|price| price.provider == provider && matches(&price.model, model));
            fitting.max_by_key(|price| price.model.trim_end_matches('*').len())
        })
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^53")]
fn tokens(count: u64) -> f64 {
    count as f64
}

fn matches(pattern: &str, model: &str) -> bool {
    if let Some(prefix) = pattern.strip_suffix('*') {
        return model.starts_with(prefix);
    }
    model.strip_prefix(pattern).is_some_and(is_snapshot)
}

/// Whether the rest of a name identifies a snapshot of a model.
fn is_snapshot(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(['-', '@']) else { return rest.is_empty() };
    let digits =
        |text: &str, lengths: &[usize]| lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = || {
        let parts: Vec<&str> = rest.split('-').collect();
        matches!(parts.as_slice(), [year, month, day] if digits(year, &[4]) && digits(month, &[2]) && digits(day, &[2]))
    };
    rest == "latest" || digits(rest, &[3, 4, 8]) || is_date()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> PriceTable {
        PriceTable::load(Path::new("/nonexistent/prices.toml")).unwrap()
    }

    fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: cache_read,
            cache_write_tokens: cache_write,
            reasoning_tokens: 0,
            source: UsageSource::Provider,
        }
    }

    #[test]
    fn shipped_table_prices_a_call() {
        let million = usage(1_000_000, 1_000_000, 0, 0);
        let cost = |model| shipped().cost_micro_usd("anthropic", model, &million);
        assert_eq!(cost("claude-sonnet-4-5"), Some(18_000_000));
        assert_eq!(cost("claude-sonnet-4-5-20250929"), Some(18_000_000));
        // 700 input at 3.00, 200 cache reads at 0.30, 100 cache writes at 3.75, 10 output at 15.00.
        let cached = usage(1000, 10, 200, 100);
        assert_eq!(shipped().cost_micro_usd("anthropic", "claude-sonnet-4-5", &cached), Some(2100 + 60 + 375 + 150));
    }

    #[test]
    fn unknown_price_is_none_and_free_is_zero() {
        let some = usage(10, 10, 0, 0);
        assert_eq!(shipped().cost_micro_usd("anthropic", "claude-sonnet-4-7", &some), None);
        assert_eq!(shipped().cost_micro_usd("openai", "gpt-5.9-mini", &some), None);
        assert_eq!(shipped().cost_micro_usd("openai", "llama3.2", &some), None);
        assert_eq!(shipped().cost_micro_usd("local", "anything.gguf", &some), Some(0));
        let missing = Usage { source: UsageSource::Missing, ..usage(0, 0, 0, 0) };
        assert_eq!(shipped().cost_micro_usd("anthropic", "claude-sonnet-4-5", &missing), None);
    }

    #[test]
    fn longest_entry_wins_and_overrides_take_precedence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        std::fs::write(
            &path,
            r#"
            [[price]]
            provider = "openai"
            model = "llama*"
            input = 1
            output = 1
            [[price]]
            provider = "openai"
            model = "llama-big*"
            input = 5
            output = 5
            [[price]]
            provider = "anthropic"
            model = "claude-sonnet-4-5"
            input = 0.5
            output = 0.5
            "#,
        )
        .unwrap();
        let table = PriceTable::load(&path).unwrap();
        let cost = |provider, model| table.cost_micro_usd(provider, model, &usage(10, 10, 0, 0));
        assert_eq!(cost("openai", "llama-small"), Some(20));
        assert_eq!(cost("openai", "llama-big-2"), Some(100));
        assert_eq!(cost("anthropic", "claude-sonnet-4-5"), Some(10));
        assert_eq!(cost("groq", "llama-big-2"), None);
    }

    #[test]
    fn long_prompts_and_reasoning_have_separate_prices() {
        let price = Price {
            provider: "openai".to_owned(),
            model: "thinker".to_owned(),
            input: 1.0,
            output: 10.0,
            cache_read: None,
            cache_write: None,
            reasoning: Some(4.0),
            long_prompt: Some(LongPrompt {
                above: 1_000,
                input: 2.0,
                output: 20.0,
                cache_read: Some(0.5),
                cache_write: None,
            }),
            context_window: None,
            max_output_tokens: Some(500),
            as_of: None,
            source: None,
        };
        let table = shipped().with_overrides(vec![price]);
        let reasoning = |input, cache_read| Usage { reasoning_tokens: 30, ..usage(input, 100, cache_read, 0) };
        let cost = |usage: Usage| table.cost_micro_usd("openai", "thinker", &usage);
        assert_eq!(cost(reasoning(1_000, 0)), Some(1_000 + 700 + 120));
        assert_eq!(cost(reasoning(1_001, 1)), Some(2_000 + 1 + 2_000));
        assert_eq!(table.max_output_tokens("openai", "thinker"), Some(500));
        let listed = table.list();
        assert_eq!(listed.iter().filter(|(origin, _)| *origin == PriceOrigin::Override).count(), 1);
        assert_eq!(listed.len(), shipped().list().len() + 1);
    }

    #[test]
    fn snapshots_are_distinguished_from_other_models() {
        for snapshot in ["", "-20250929", "-2025-08-07", "-001", "-2512", "-latest", "@20250929"] {
            assert!(is_snapshot(snapshot), "{snapshot}");
        }
        for other in ["-mini", "-5", ".4", "-1m", "-2025-08", "-fast-latest", "x"] {
            assert!(!is_snapshot(other), "{other}");
        }
    }
}
