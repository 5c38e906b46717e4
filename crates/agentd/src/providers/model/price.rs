//! What tokens cost. The table is a file that ships with the daemon; `prices.toml` in the data
//! directory goes before it.
//!
//! A wrong price is worse than none: an entry stands for the model it names and for dated or
//! numbered snapshots of it (`-20250929`, `-2025-08-07`, `-001`, `-latest`), not for whatever
//! begins alike. An entry that ends in `*` stands for every name that begins so. The longest entry
//! that fits counts.

use std::path::Path;

use agentd_llm::{Usage, UsageSource};
use serde::Deserialize;

const SHIPPED: &str = include_str!("../prices.toml");

/// Why a price table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceTableError {
    #[error("the price table {file} is not valid: {reason}")]
    Invalid { file: String, reason: String },
    #[error("the price table {file} cannot be read")]
    File { file: String, source: std::io::Error },
}

/// US dollars per million tokens, which is micro-dollars per token.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    provider: String,
    model: String,
    input: f64,
    output: f64,
    /// Where left out, reading from the cache costs what input costs.
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    context_window: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The day for which the prices were written down.
    #[serde(rename = "as_of")]
    _as_of: Option<String>,
    #[serde(default, rename = "price")]
    prices: Vec<Entry>,
}

/// Prices and context windows by provider and model.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceTable {
    /// The owner's table goes first.
    tables: Vec<Vec<Entry>>,
}

impl PriceTable {
    /// The table that ships with the daemon, behind the file at `overrides` if there is one.
    ///
    /// # Errors
    /// What is wrong with the file, and where.
    pub fn load(overrides: &Path) -> Result<Self, PriceTableError> {
        let file = overrides.display().to_string();
        let mut tables = Vec::new();
        match std::fs::read_to_string(overrides) {
            Ok(text) => tables.push(parse(&text, &file)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(PriceTableError::File { file, source }),
        }
        tables.push(parse(SHIPPED, "that ships with the daemon")?);
        Ok(Self { tables })
    }

    /// What a call cost, in millionths of a US dollar; `None` when its price is not known, or its
    /// tokens are not.
    #[must_use]
    pub fn cost_micro_usd(&self, provider: &str, model: &str, usage: &Usage) -> Option<u64> {
        if usage.source == UsageSource::Missing {
            return None;
        }
        let price = self.find(provider, model)?;
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let plain = usage.input_tokens.saturating_sub(cached);
        let cost = tokens(plain) * price.input
            + tokens(usage.cache_read_tokens) * price.cache_read.unwrap_or(price.input)
            + tokens(usage.cache_write_tokens) * price.cache_write.unwrap_or(price.input)
            + tokens(usage.output_tokens) * price.output;
        // The store's integers are signed.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the limits given here")]
        Some(cost.round().clamp(0.0, 9e18) as u64)
    }

    /// The context window of a model in tokens, where the table says it.
    #[must_use]
    pub fn context_window(&self, provider: &str, model: &str) -> Option<u64> {
        self.find(provider, model)?.context_window
    }

    fn find(&self, provider: &str, model: &str) -> Option<&Entry> {
        self.tables.iter().find_map(|table| {
            let fitting = table.iter().filter(|entry| entry.provider == provider && fits(&entry.model, model));
            fitting.max_by_key(|entry| entry.model.trim_end_matches('*').len())
        })
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^53")]
fn tokens(count: u64) -> f64 {
    count as f64
}

fn fits(pattern: &str, model: &str) -> bool {
    if let Some(prefix) = pattern.strip_suffix('*') {
        return model.starts_with(prefix);
    }
    model.strip_prefix(pattern).is_some_and(is_snapshot)
}

/// Whether this rest of a name says which snapshot of a model is meant.
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

fn parse(text: &str, file: &str) -> Result<Vec<Entry>, PriceTableError> {
    let invalid = |reason: String| PriceTableError::Invalid { file: file.to_owned(), reason };
    let table: File = toml::from_str(text).map_err(|error| invalid(error.to_string().trim().replace('\n', " ")))?;
    for (index, entry) in table.prices.iter().enumerate() {
        let prices = [Some(entry.input), Some(entry.output), entry.cache_read, entry.cache_write];
        let number = index + 1;
        if !super::is_provider(&entry.provider) {
            return Err(invalid(format!("entry {number} names the provider `{}`, which is none", entry.provider)));
        }
        if entry.model.is_empty() {
            return Err(invalid(format!("entry {number} names no model")));
        }
        if !prices.into_iter().flatten().all(|price| (0.0..=100_000.0).contains(&price)) {
            return Err(invalid(format!("entry {number} ({}) has a price below 0 or above 100000", entry.model)));
        }
    }
    Ok(table.prices)
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
    fn the_shipped_table_prices_a_call() {
        let million = usage(1_000_000, 1_000_000, 0, 0);
        let cost = |model| shipped().cost_micro_usd("anthropic", model, &million);
        assert_eq!(cost("claude-sonnet-4-5"), Some(18_000_000));
        assert_eq!(cost("claude-sonnet-4-5-20250929"), Some(18_000_000));
        // 700 plain at 3.00, 200 read at 0.30, 100 written at 3.75, 10 out at 15.00.
        let cached = usage(1000, 10, 200, 100);
        assert_eq!(shipped().cost_micro_usd("anthropic", "claude-sonnet-4-5", &cached), Some(2100 + 60 + 375 + 150));
    }

    #[test]
    fn an_unknown_price_is_none_and_a_known_nothing_is_zero() {
        let some = usage(10, 10, 0, 0);
        assert_eq!(shipped().cost_micro_usd("anthropic", "claude-sonnet-4-7", &some), None);
        assert_eq!(shipped().cost_micro_usd("openai", "gpt-5.4-mini", &some), None);
        assert_eq!(shipped().cost_micro_usd("openai", "llama3.2", &some), None);
        assert_eq!(shipped().cost_micro_usd("local", "anything.gguf", &some), Some(0));
        let missing = Usage { source: UsageSource::Missing, ..usage(0, 0, 0, 0) };
        assert_eq!(shipped().cost_micro_usd("anthropic", "claude-sonnet-4-5", &missing), None);
    }

    #[test]
    fn the_longest_entry_counts_and_the_owners_goes_first() {
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
    fn a_bad_table_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        for (text, part) in [
            ("[[price]]\nprovider = \"nobody\"\nmodel = \"m\"\ninput = 1\noutput = 1", "`nobody`"),
            ("[[price]]\nprovider = \"xai\"\nmodel = \"m\"\ninput = -1\noutput = 1", "below 0"),
            ("[[price]]\nprovider = \"xai\"\nmodel = \"m\"\ninput = nan\noutput = 1", "below 0"),
            ("[[price]]\nprovider = \"xai\"\nmodel = \"m\"\ninptu = 1\noutput = 1", "inptu"),
            ("[[price", "line 1"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = PriceTable::load(&path).unwrap_err().to_string();
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn snapshots_are_told_from_other_models() {
        for snapshot in ["", "-20250929", "-2025-08-07", "-001", "-2512", "-latest", "@20250929"] {
            assert!(is_snapshot(snapshot), "{snapshot}");
        }
        for other in ["-mini", "-5", ".4", "-1m", "-2025-08", "-fast-latest", "x"] {
            assert!(!is_snapshot(other), "{other}");
        }
    }
}
