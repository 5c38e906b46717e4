//! Price table files.

use std::path::Path;

use agentd_base::Problems;
use jiff::civil::Date;
use serde::Deserialize;

use super::entry::Price;

const SHIPPED: &str = include_str!("../../prices.toml");

/// Error of a price table.
#[derive(Debug, thiserror::Error)]
pub enum PriceTableError {
    #[error("the price table {file} is not valid: {reason}")]
    Invalid { file: String, reason: String },
    #[error("the price table {file} cannot be read")]
    File { file: String, source: std::io::Error },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Date of entries without their own.
    as_of: Option<Date>,
    /// Source of entries without their own.
    source: Option<String>,
    #[serde(default, rename = "price")]
    prices: Vec<Price>,
}

pub(super) fn shipped() -> Result<Vec<Price>, PriceTableError> {
    parse(SHIPPED, "that ships with the daemon")
}

/// Reads a table from a file; empty if the file does not exist.
pub(super) fn read(path: &Path) -> Result<Vec<Price>, PriceTableError> {
    let file = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, &file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(PriceTableError::File { file, source }),
    }
}

fn parse(text: &str, file: &str) -> Result<Vec<Price>, PriceTableError> {
    let invalid = |reason: String| PriceTableError::Invalid { file: file.to_owned(), reason };
    let table: File = toml::from_str(text).map_err(|error| invalid(error.to_string().trim().replace('\n', " ")))?;
    let (mut prices, mut messages) = (table.prices, Vec::new());
    for (index, price) in prices.iter_mut().enumerate() {
        price.as_of = price.as_of.or(table.as_of);
        price.source = price.source.take().or_else(|| table.source.clone());
        let mut problems = Problems::new();
        price.check(&mut problems);
        let problems = problems.into_result().err().unwrap_or_default();
        messages.extend(problems.into_iter().map(|problem| {
            format!("entry {} ({} {}): {} {}", index + 1, price.provider, price.model, problem.field, problem.message)
        }));
    }
    if messages.is_empty() { Ok(prices) } else { Err(invalid(messages.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_table_error_names_the_entry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        for (text, part) in [
            ("[[price]]\nprovider = \"nobody\"\nmodel = \"m\"\ninput = 1\noutput = 1", "nobody m"),
            ("[[price]]\nprovider = \"xai\"\nmodel = \"m\"\ninput = -1\noutput = 1", "input must be a price"),
            ("[[price]]\nprovider = \"xai\"\nmodel = \"m\"\ninput = nan\noutput = inf", "output must be a price"),
            ("[[price]]\nprovider = \"xai\"\nmodel = \"m\"\noutput = 1", "input"),
            ("[[price]]\nprovider = \"xai\"\nmodel = \"a*b\"\ninput = 1\noutput = 1", "model must be"),
            ("[[price]]\nprovider = \"xai\"\nmodel = \"m\"\ninptu = 1\noutput = 1", "inptu"),
            ("[[price]]\nprovider = \"xai\"\nmodel = \"m\"\ninput = 1\noutput = 1\nas_of = \"soon\"", "as_of"),
            ("[[price", "line 1"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn shipped_table_is_valid_and_has_sources() {
        let shipped = shipped().unwrap();
        assert!(shipped.len() > 20);
        for (index, price) in shipped.iter().enumerate() {
            assert!(price.as_of.is_some() && price.source.is_some(), "{price:?}");
            assert!(!shipped[..index].iter().any(|other| other.has_same_key(price)), "twice: {price:?}");
        }
    }
}
