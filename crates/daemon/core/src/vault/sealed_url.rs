//! Urls with a credential in them. What is stored and shown says `***` in its place, `https://***@host/?token=***`; the
//! credentials lie in the vault, each by itself, so that a url which comes back as it was shown keeps them.

use std::collections::BTreeMap;
use std::ops::Range;

use agentd_base::{Redactor, Secret};
use agentd_store::{Read, StoreError, Tx};
use percent_encoding::percent_decode_str;
use url::Url;

use super::destination::{ENTER_AGAIN, server_of};
use super::{Vault, VaultError};

/// What stands in place of a credential.
const MASK: &str = "***";
/// What the names of credentials begin with in the vault; no header and no variable has a name like that.
const PREFIX: &str = "url:";

/// What becomes of a `***` that stands for no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownMask {
    /// It is refused: somebody can be asked for the value.
    #[default]
    Refuse,
    /// It stays, without a value, until that is entered: as of an import.
    Leave,
}

/// What is to be written to the vault: a value is put, none is cleared.
pub type UrlSecrets = Vec<(String, Option<Secret>)>;

/// A url without its credentials.
#[derive(Debug, Clone)]
pub struct SealedUrl {
    /// As it is stored and shown.
    pub shown: String,
    pub secrets: UrlSecrets,
    /// Credentials that were there and could not be kept.
    pub dropped: bool,
}

/// A credential in a text: its name in the vault, and where it stands.
struct CredentialSpan {
    name: String,
    range: Range<usize>,
}

impl SealedUrl {
    /// Takes the credentials out of a url, or of a text that ends with one. `before` is what was stored until now: for a
    /// `***` its value is kept, if the url leads to the same server.
    ///
    /// # Errors
    /// Completes the field's name: a `***` for which there is no value.
    pub fn new(given: &str, before: Option<&str>, unknown: UnknownMask) -> Result<Self, &'static str> {
        // Parsers of urls pass over them, so that a url could look like another one here.
        if given.trim().contains(char::is_control) {
            return Err("must not hold control characters");
        }
        let text = canonical(given);
        let had = before.map(places).unwrap_or_default();
        let is_same_server = before == Some(text.as_str())
            || before.and_then(server_in).is_some_and(|had| server_in(&text) == Some(had));
        let places = places(&text);
        let (mut shown, mut secrets, mut kept) = (text.clone(), UrlSecrets::new(), Vec::new());
        for place in places.iter().rev() {
            let value = &text[place.range.clone()];
            if value != MASK {
                secrets.push((place.name.clone(), Some(Secret::new(value.to_owned()))));
                kept.push(&place.name);
                shown.replace_range(place.range.clone(), MASK);
            } else if is_same_server && had.iter().any(|had| had.name == place.name) {
                kept.push(&place.name);
            } else if unknown == UnknownMask::Refuse {
                let was_there = had.iter().any(|had| had.name == place.name);
                return Err(if was_there { ENTER_AGAIN } else { "holds *** where it has no value yet; give it one" });
            }
        }
        let gone = had.into_iter().filter(|had| !kept.contains(&&had.name)).map(|had| had.name);
        let gone: Vec<_> = gone.map(|name| (name, None)).collect();
        let dropped = gone.iter().any(|(name, _)| places.iter().any(|place| place.name == *name));
        secrets.extend(gone);
        Ok(Self { shown, secrets, dropped })
    }
}

/// The names in the vault of the credentials in a stored url.
#[must_use]
pub fn names_in_url(shown: &str) -> Vec<String> {
    places(shown).into_iter().map(|place| place.name).collect()
}

/// Writes what a change of a url has left.
///
/// # Errors
/// What the database refuses.
pub async fn write_url_secrets(
    tx: &mut Tx,
    vault: &Vault,
    scope: &str,
    secrets: &UrlSecrets,
) -> Result<(), StoreError> {
    for (name, secret) in secrets {
        match secret {
            Some(secret) => vault.put(tx, scope, name, secret).await?,
            None => vault.clear(tx, scope, name).await?,
        }
    }
    Ok(())
}

/// A stored url with its credentials, or a sentence on which is missing.
///
/// # Errors
/// The database is away.
pub async fn open_url(
    read: &mut Read,
    vault: &Vault,
    scope: &str,
    shown: &str,
) -> Result<Result<String, String>, VaultError> {
    let mut url = shown.to_owned();
    for CredentialSpan { name, range } in places(shown).into_iter().rev() {
        // An old row, which holds it in the clear.
        if &shown[range.clone()] != MASK {
            continue;
        }
        match vault.get_in(read, scope, &name).await {
            Ok(Some(secret)) => url.replace_range(range, secret.expose()),
            // A backup without its secrets was restored.
            Ok(None) => {
                let what = name.trim_start_matches(PREFIX);
                return Ok(Err(format!(
                    "the {what} of the url is missing; enter the url again, with all that is in it"
                )));
            }
            Err(error @ VaultError::Unsealable { .. }) => return Ok(Err(error.to_string())),
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(url))
}

/// Adds the credentials in a url to what is hidden.
pub fn hide_url_secrets(redactor: &mut Redactor, url: &str) {
    for CredentialSpan { range, .. } in places(url) {
        redactor.add(&url[range.clone()]);
        redactor.add(&percent_decode_str(&url[range]).decode_utf8_lossy());
    }
    if let Ok(url) = Url::parse(url)
        && (!url.username().is_empty() || url.password().is_some())
    {
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        redactor.add_login(&plain(url.username()), &plain(url.password().unwrap_or_default()));
    }
}

/// A text whose url is written so that [`places`] finds every credential: parsers of urls pass over line breaks, and
/// take `\` for `/`. One with placeholders stays as it is, and so does one without credentials.
fn canonical(text: &str) -> String {
    let (before, url) = split(text.trim());
    match Url::parse(url) {
        Ok(parsed) if !text.contains("{{") && !places(parsed.as_str()).is_empty() => format!("{before}{parsed}"),
        _ => text.trim().to_owned(),
    }
}

/// What stands before a url, such as `webhook:`, and the url.
fn split(text: &str) -> (&str, &str) {
    let is_web = |text: &str| Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    match text.split_once(':') {
        Some((before, rest)) if !is_web(text) && is_web(rest) => text.split_at(before.len() + 1),
        _ => ("", text),
    }
}

/// The server that the url at the end of a text leads to.
fn server_in(text: &str) -> Option<String> {
    // A placeholder stands for anything; an owner's host has none.
    let plain = text.trim().replace("{{", "").replace("}}", "").replace(MASK, "x");
    server_of(split(&plain).1)
}

/// The credentials in a text with a url, in their order: what stands before the host, and parameters of the query that
/// are named like a credential.
fn places(text: &str) -> Vec<CredentialSpan> {
    let mut found = Vec::new();
    let Some(start) = text.find("://").map(|at| at + 3) else { return found };
    let end_of = |from: usize, ends: &[char]| text[from..].find(ends).map_or(text.len(), |at| from + at);
    let authority = end_of(start, &['/', '?', '#', '\\']);
    if let Some(at) = text[start..authority].rfind('@').filter(|at| *at > 0) {
        found.push(CredentialSpan { name: format!("{PREFIX}login"), range: start..start + at });
    }
    let query_end = end_of(authority, &['#']);
    let Some(query) = text[authority..query_end].find('?').map(|at| authority + at + 1) else { return found };
    let mut seen = BTreeMap::new();
    let mut from = query;
    for pair in text[query..query_end].split('&') {
        if let Some((name, value)) = pair.split_once('=') {
            let name_shown = percent_decode_str(name).decode_utf8_lossy().to_lowercase();
            if !value.is_empty() && !value.contains("{{") && is_named_like_a_credential(&name_shown) {
                let nth: &mut u32 = seen.entry(name_shown.clone()).or_default();
                *nth += 1;
                let nth = if *nth == 1 { String::new() } else { format!("#{nth}") };
                let value_from = from + name.len() + 1;
                found.push(CredentialSpan {
                    name: format!("{PREFIX}{name_shown}{nth}"),
                    range: value_from..value_from + value.len(),
                });
            }
        }
        from += pair.len() + 1;
    }
    found
}

/// Whether a parameter of this name, in small letters, carries a credential.
pub fn is_named_like_a_credential(name: &str) -> bool {
    const PARTS: [&str; 9] =
        ["token", "secret", "password", "passwd", "passphrase", "apikey", "signature", "credential", "accesskey"];
    const WORDS: [&str; 11] =
        ["key", "sig", "auth", "authorization", "pass", "pwd", "jwt", "bearer", "hmac", "pin", "sid"];
    let plain: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    // `code` is what the keys of some clouds' functions are called.
    PARTS.iter().any(|part| plain.contains(part)) || words.any(|word| WORDS.contains(&word)) || name == "code"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Written = Vec<(String, Option<String>)>;

    fn sealed(given: &str, before: Option<&str>) -> Result<(String, Written), &'static str> {
        let sealed = SealedUrl::new(given, before, UnknownMask::Refuse)?;
        let secrets = sealed.secrets.into_iter();
        let shown = |secret: Secret| secret.expose().to_owned();
        let mut secrets: Written = secrets.map(|(name, secret)| (name, secret.map(shown))).collect();
        secrets.sort();
        Ok((sealed.shown, secrets))
    }

    fn put(name: &str, value: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(value.to_owned()))
    }

    #[test]
    fn credentials_leave_a_url() {
        let found =
            sealed("https://ada:love@x.example/a?q=1&Token=t1&token=t2&x-amz-signature=s#token=no", None).unwrap();
        assert_eq!(found.0, "https://***@x.example/a?q=1&Token=***&token=***&x-amz-signature=***#token=no");
        assert_eq!(
            found.1,
            [
                put("url:login", "ada:love"),
                put("url:token", "t1"),
                put("url:token#2", "t2"),
                put("url:x-amz-signature", "s")
            ]
        );
        assert_eq!(sealed("webhook:https://u@x/?key=k", None).unwrap().0, "webhook:https://***@x/?key=***");
        assert_eq!(
            sealed("https://x/?api_key={{input.key}}&q=1", None).unwrap().0,
            "https://x/?api_key={{input.key}}&q=1"
        );
        for plain in ["https://x.example/a@b?q=a@b&monkey=1&keyboard=2&token=", "slack:#general", "email:a@b.co", "x"] {
            assert_eq!(sealed(plain, None), Ok((plain.to_owned(), Vec::new())), "{plain}");
        }
        for sly in ["https:\\\\ada:love@x.example\\a", " HTTPS://ada:love@x.example/", "https:ada:love@x.example"] {
            let shown = sealed(sly, None).unwrap().0;
            assert!(shown.starts_with("https://***@x.example/") && !shown.contains("love"), "{sly}: {shown}");
        }
        assert!(sealed("ht\ntps://ada:lo\tve@x.example/", None).is_err());
        assert!(sealed("https://x.example/?to%6ben=t", None).unwrap().0.ends_with("=***"));
    }

    #[test]
    fn what_comes_back_as_it_was_shown_keeps_its_value_on_the_same_server() {
        let before = Some("https://***@x.example/a?token=***");
        assert_eq!(
            sealed("https://***@x.example:443/b?token=***", before),
            Ok(("https://***@x.example/b?token=***".into(), vec![]))
        );
        assert_eq!(sealed("https://***@x.example/?token=new", before).unwrap().1, [put("url:token", "new")]);
        let gone = vec![("url:login".to_owned(), None), ("url:token".to_owned(), None)];
        assert_eq!(sealed("https://x.example/", before), Ok(("https://x.example/".into(), gone)));
        for elsewhere in [
            "https://***@y.example/",
            "http://x.example/?token=***",
            "https://x.example:8443/?token=***",
            // Another url within a url, or one that is none.
            "HTTPS://***@evil.example/?token=***#https://x.example/",
            "Https://evil.example/{{input.p}}?token=***&u=https://x.example/",
            "webhook:HTTPS://***@evil.example/#https://x.example/",
            "x://***@/#https://x.example/",
        ] {
            assert_eq!(sealed(elsewhere, before), Err(ENTER_AGAIN), "{elsewhere}");
        }
        for unknown in ["https://x.example/?sig=***", "https://x.example/?token=***&token=***"] {
            assert!(sealed(unknown, before).unwrap_err().contains("no value yet"), "{unknown}");
        }
        assert!(sealed("https://***@x.example/", None).is_err());
        let left = SealedUrl::new("https://***@y.example/", before, UnknownMask::Leave).unwrap();
        assert_eq!((left.shown.as_str(), left.dropped), ("https://***@y.example/", true));
    }

    #[test]
    fn what_a_url_holds_is_hidden_as_it_is_and_as_it_is_sent() {
        let mut redactor = Redactor::default();
        hide_url_secrets(&mut redactor, "https://ada:l%2Fvelace@x.example/?token=abcdefgh&q=public-value");
        let said = "Basic YWRhOmwvdmVsYWNl, l/velace, l%2Fvelace, abcdefgh, public-value";
        assert_eq!(redactor.hide(said), "Basic [hidden], [hidden], [hidden], [hidden], public-value");
    }

    proptest! {
        #[test]
        fn a_sealed_url_is_sealed(text in "(webhook:)?https?:[/\\\\]{0,3}\\PC{0,40}", token in "[a-z0-9]{12}") {
            for url in [format!("{text}?token={token}"), text.replacen("://", &format!("://{token}@"), 1)] {
                let Ok(sealed) = SealedUrl::new(&url, None, UnknownMask::Leave) else { continue };
                let again = SealedUrl::new(&sealed.shown, Some(&sealed.shown), UnknownMask::Refuse).unwrap();
                prop_assert_eq!((&again.shown, again.secrets.len()), (&sealed.shown, 0));
            }
        }
    }
}
