//! Secrets of a recording: numbered, held in memory while it runs, and in no file.

use agentd_base::{Redactor, Secret};
use serde_json::{Map, Value};

const BEFORE: &str = "{{secret:";
const AFTER: &str = "}}";

/// The credentials that stand in an address.
pub type CredentialsInUrl = fn(&str) -> Vec<Secret>;

/// What was typed so far that nobody may read later.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    values: Vec<Secret>,
    redactor: Redactor,
}

impl Secrets {
    /// What stands in its place. The same secret has the same number.
    pub(super) fn placeholder(&mut self, value: &str) -> String {
        let known = self.values.iter().position(|known| known.expose() == value);
        let index = known.unwrap_or_else(|| {
            self.values.push(Secret::new(value.to_owned()));
            self.redactor.add(value);
            self.values.len() - 1
        });
        format!("{BEFORE}{}{AFTER}", index + 1)
    }

    /// An address with numbers in place of its credentials.
    pub(super) fn take_from_url(&mut self, url: &str, credentials: CredentialsInUrl) -> String {
        let mut taken = url.to_owned();
        for value in credentials(url) {
            let placeholder = self.placeholder(value.expose());
            taken = replace_credential(&taken, value.expose(), &placeholder);
        }
        taken
    }

    pub(super) fn hide(&self, text: &mut String) {
        *text = self.redactor.hide(std::mem::take(text));
    }

    /// As they may show on a page; shorter ones are parts of every text.
    pub(super) fn visible(&self) -> Vec<&str> {
        self.values.iter().map(Secret::expose).filter(|value| value.chars().count() >= 4).collect()
    }
}

/// An address as it is kept of a page: `***` in place of its credentials.
pub(super) fn without_credentials(url: &str, credentials: CredentialsInUrl) -> String {
    credentials(url).iter().fold(url.to_owned(), |url, value| replace_credential(&url, value.expose(), "***"))
}

/// Only where a credential stands: the same letters may be a part of anything else.
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

/// The numbers in a text.
pub(super) fn numbers_in(text: &str) -> Vec<u32> {
    text.split(BEFORE).skip(1).filter_map(|piece| Some(numbered(piece)?.0)).collect()
}

/// The number that a piece begins with, and what follows.
fn numbered(piece: &str) -> Option<(u32, &str)> {
    let (number, rest) = piece.split_once(AFTER)?;
    Some((number.parse().ok()?, rest))
}

/// Puts the secrets where their numbers are.
pub fn with_secrets<'s>(
    parameters: &Map<String, Value>,
    secret: impl Fn(u32) -> Option<&'s Secret>,
) -> Map<String, Value> {
    let filled = |text: &str| {
        let mut pieces = text.split(BEFORE);
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            match numbered(piece).and_then(|(number, rest)| Some((secret(number)?, rest))) {
                Some((secret, rest)) => filled.extend([secret.expose(), rest]),
                None => filled.extend([BEFORE, piece]),
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
    fn credentials_of_an_address_are_numbered() {
        let url = "http://ada:love@h.example/1?page=1&token=1&x=11#token";
        let mut secrets = Secrets::default();
        let taken = secrets.take_from_url(url, credentials);
        assert_eq!(taken, "http://{{secret:1}}@h.example/1?page={{secret:2}}&token={{secret:2}}&x=11#token");
        assert_eq!(without_credentials(url, credentials), "http://***@h.example/1?page=***&token=***&x=11#token");
        assert_eq!(secrets.visible(), ["ada:love"]);
        let mut text = "as ada:love".to_owned();
        secrets.hide(&mut text);
        assert_eq!(text, "as [hidden]");
        let parameters = Map::from_iter([("url".to_owned(), taken.into())]);
        let filled = with_secrets(&parameters, |number| secrets.values.get(number as usize - 1));
        assert_eq!(filled["url"], url);
    }

    proptest! {
        #[test]
        fn what_was_taken_out_is_put_back(texts in proptest::collection::vec(".{0,20}", 1..6), other in ".{0,20}") {
            let mut secrets = Secrets::default();
            let parameters: Map<String, Value> =
                texts.iter().enumerate().map(|(n, text)| (n.to_string(), secrets.placeholder(text).into())).collect();
            let filled = with_secrets(&parameters, |number| secrets.values.get(number as usize - 1));
            for (number, text) in texts.iter().enumerate() {
                prop_assert_eq!(&filled[&number.to_string()], text);
            }
            let alone = Map::from_iter([("text".to_owned(), other.clone().into())]);
            prop_assert_eq!(&with_secrets(&alone, |_| None)["text"], &other);
            let _ = numbers_in(&other);
        }
    }
}
