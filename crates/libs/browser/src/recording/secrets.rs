//! Secrets of a recording: numbered, held in memory during the recording, and never written to a file.

use agentd_base::{Redactor, Secret};
use serde_json::{Map, Value};

const PLACEHOLDER_PREFIX: &str = "{{secret:";
const PLACEHOLDER_SUFFIX: &str = "}}";

/// Extracts the credentials in a URL.
pub type CredentialsInUrl = fn(&str) -> Vec<Secret>;

/// Secrets collected so far.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    values: Vec<Secret>,
    redactor: Redactor,
}

impl Secrets {
    /// Returns the placeholder for a secret. Equal secrets have the same number.
    pub(super) fn placeholder(&mut self, value: &str) -> String {
        let known = self.values.iter().position(|known| known.expose() == value);
        let index = known.unwrap_or_else(|| {
            self.values.push(Secret::new(value.to_owned()));
            self.redactor.add(value);
            self.values.len() - 1
        });
        format!("{PLACEHOLDER_PREFIX}{}{PLACEHOLDER_SUFFIX}", index + 1)
    }

    /// Replaces the credentials in a URL by placeholders.
    pub(super) fn redact_url(&mut self, url: &str, credentials: CredentialsInUrl) -> String {
        let mut redacted = url.to_owned();
        for value in credentials(url) {
            let placeholder = self.placeholder(value.expose());
            redacted = replace_credential(&redacted, value.expose(), &placeholder);
        }
        redacted
    }

    pub(super) fn hide(&self, text: &mut String) {
        *text = self.redactor.redact(std::mem::take(text));
    }

    /// Returns the secrets to conceal on pages; shorter ones occur in any text.
    pub(super) fn visible(&self) -> Vec<&str> {
        self.values.iter().map(Secret::expose).filter(|value| value.chars().count() >= 4).collect()
    }
}

/// Replaces the credentials in a URL by `***`.
pub(super) fn without_credentials(url: &str, credentials: CredentialsInUrl) -> String {
    credentials(url).iter().fold(url.to_owned(), |url, value| replace_credential(&url, value.expose(), "***"))
}

/// Replaces a credential only at its position, since the same characters may occur elsewhere.
fn replace_credential(url: &str, value: &str, with: &str) -> String {
    let url = url.replacen(&format!("//{value}@"), &format!("//{with}@"), 1);
    let needle = format!("={value}");
    let (mut replaced, mut rest) = (String::with_capacity(url.len()), url.as_str());
    while let Some(at) = rest.find(&needle) {
        let after = &rest[at + needle.len()..];
        let is_whole = after.is_empty() || after.starts_with(['&', '#', ';']);
        replaced.push_str(&rest[..at]);
        replaced.push('=');
        replaced.push_str(if is_whole { with } else { value });
        rest = after;
    }
    replaced + rest
}

/// Returns the numbers of all placeholders in a text.
pub(super) fn secret_numbers(text: &str) -> Vec<u32> {
    text.split(PLACEHOLDER_PREFIX).skip(1).filter_map(|piece| Some(split_number(piece)?.0)).collect()
}

/// Splits a piece into the leading number and the remainder.
fn split_number(piece: &str) -> Option<(u32, &str)> {
    let (number, rest) = piece.split_once(PLACEHOLDER_SUFFIX)?;
    Some((number.parse().ok()?, rest))
}

/// Replaces the placeholders in parameters by their secrets.
pub fn with_secrets<'s>(
    parameters: &Map<String, Value>,
    secret: impl Fn(u32) -> Option<&'s Secret>,
) -> Map<String, Value> {
    let filled = |text: &str| {
        let mut pieces = text.split(PLACEHOLDER_PREFIX);
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            match split_number(piece).and_then(|(number, rest)| Some((secret(number)?, rest))) {
                Some((secret, rest)) => filled.extend([secret.expose(), rest]),
                None => filled.extend([PLACEHOLDER_PREFIX, piece]),
            }
        }
        filled
    };
    let filled = |value: &Value| value.as_str().map_or_else(|| value.clone(), |text| filled(text).into());
    parameters.iter().map(|(name, value)| (name.clone(), filled(value))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn credentials(url: &str) -> Vec<Secret> {
        let login = url.split_once("//").and_then(|(_, rest)| rest.split_once('@')).map(|(login, _)| login);
        let token = url.split_once("token=").and_then(|(_, rest)| rest.split(['&', '#']).next());
        login.into_iter().chain(token).map(|value| Secret::new(value.to_owned())).collect()
    }

    #[test]
    fn url_credentials_are_replaced_by_placeholders() {
        let url = "http://ada:love@h.example/1?page=1&token=1&x=11#token";
        let mut secrets = Secrets::default();
        let redacted = secrets.redact_url(url, credentials);
        assert_eq!(redacted, "http://{{secret:1}}@h.example/1?page={{secret:2}}&token={{secret:2}}&x=11#token");
        assert_eq!(without_credentials(url, credentials), "http://***@h.example/1?page=***&token=***&x=11#token");
        assert_eq!(secrets.visible(), ["ada:love"]);
        let mut text = "as ada:love".to_owned();
        secrets.hide(&mut text);
        assert_eq!(text, "as [hidden]");
        let parameters = Map::from_iter([("url".to_owned(), redacted.into())]);
        let filled = with_secrets(&parameters, |number| secrets.values.get(number as usize - 1));
        assert_eq!(filled["url"], url);
    }

    proptest! {
        #[test]
        fn placeholders_are_resolved_to_their_secrets(
            texts in proptest::collection::vec(".{0,20}", 1..6),
            other in ".{0,20}",
        ) {
            let mut secrets = Secrets::default();
            let parameters: Map<String, Value> =
                texts.iter().enumerate().map(|(n, text)| (n.to_string(), secrets.placeholder(text).into())).collect();
            let filled = with_secrets(&parameters, |number| secrets.values.get(number as usize - 1));
            for (number, text) in texts.iter().enumerate() {
                prop_assert_eq!(&filled[&number.to_string()], text);
            }
            let alone = Map::from_iter([("text".to_owned(), other.clone().into())]);
            prop_assert_eq!(&with_secrets(&alone, |_| None)["text"], &other);
            let _ = secret_numbers(&other);
        }
    }
}
