//! URLs with credentials. The stored URL contains `***` in place of each credential (`https://***@host/?token=***`).
//! The credentials are stored in the vault under separate names, so a URL that a client sends back with masks retains
//! them.

use std::collections::BTreeMap;
use std::ops::Range;

use agentd_base::{Redactor, Secret};
use agentd_store::{Read, StoreError, Tx};
use percent_encoding::percent_decode_str;
use url::Url;

use super::destination::{ENTER_AGAIN, server_origin};
use super::{Vault, VaultError};

/// Mask of a credential.
const MASK: &str = "***";
/// Prefix of credential names in the vault. Names of headers and variables never have it.
const PREFIX: &str = "url:";

/// Handling of a mask without a stored value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownMask {
    /// Reject the URL, because the user can enter the value.
    #[default]
    Refuse,
    /// Keep the mask without a value until one is entered, as for an import.
    Leave,
}

/// Changes for the vault by name: `Some` stores a value, `None` deletes it.
pub type UrlSecrets = Vec<(String, Option<Secret>)>;

/// URL with masked credentials.
#[derive(Debug, Clone)]
pub struct SealedUrl {
    /// URL as it is stored and shown.
    pub shown: String,
    pub secrets: UrlSecrets,
    /// Whether stored credentials were dropped although the URL still masks them.
    pub dropped: bool,
}

/// Credential in a text: its name in the vault and its byte range.
struct CredentialSpan {
    name: String,
    range: Range<usize>,
}

impl SealedUrl {
    /// Extracts the credentials of a URL, or of a text that ends with one. `before` is the stored URL: a mask retains
    /// its stored value if the URL points to the same server.
    ///
    /// # Errors
    /// An error message, after the field's name, if a mask has no value.
    pub fn new(given: &str, before: Option<&str>, unknown: UnknownMask) -> Result<Self, &'static str> {
        // URL parsers ignore control characters, so the URL could be interpreted differently here.
        if given.trim().contains(char::is_control) {
            return Err("must not contain control characters");
        }
        let text = canonical(given);
        let stored = before.map(find_credentials).unwrap_or_default();
        let is_same_server = before == Some(text.as_str())
            || before.and_then(url_server).is_some_and(|stored| url_server(&text) == Some(stored));
        let spans = find_credentials(&text);
        let (mut shown, mut secrets, mut kept) = (text.clone(), UrlSecrets::new(), Vec::new());
        for span in spans.iter().rev() {
            let value = &text[span.range.clone()];
            if value != MASK {
                secrets.push((span.name.clone(), Some(Secret::new(value.to_owned()))));
                kept.push(&span.name);
                shown.replace_range(span.range.clone(), MASK);
            } else if is_same_server && stored.iter().any(|stored| stored.name == span.name) {
                kept.push(&span.name);
            } else if unknown == UnknownMask::Refuse {
                let was_stored = stored.iter().any(|stored| stored.name == span.name);
                return Err(if was_stored {
                    ENTER_AGAIN
                } else {
                    "contains *** in a place that has no value yet; enter the value"
                });
            }
        }
        let gone = stored.into_iter().filter(|stored| !kept.contains(&&stored.name)).map(|stored| stored.name);
        let gone: Vec<_> = gone.map(|name| (name, None)).collect();
        let dropped = gone.iter().any(|(name, _)| spans.iter().any(|span| span.name == *name));
        secrets.extend(gone);
        Ok(Self { shown, secrets, dropped })
    }
}

/// Returns the vault names of the credentials in a stored URL.
#[must_use]
pub fn names_in_url(shown: &str) -> Vec<String> {
    find_credentials(shown).into_iter().map(|span| span.name).collect()
}

/// Writes the changed credentials of a URL to the vault.
///
/// # Errors
/// `StoreError` if a write fails.
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

/// Restores the credentials of a stored URL. The inner error is a message that names a missing credential.
///
/// # Errors
/// `VaultError` if the database is unavailable.
pub async fn open_url(
    read: &mut Read,
    vault: &Vault,
    scope: &str,
    shown: &str,
) -> Result<Result<String, String>, VaultError> {
    let mut url = shown.to_owned();
    for CredentialSpan { name, range } in find_credentials(shown).into_iter().rev() {
        // Row of an earlier version, with the credential in plain text.
        if &shown[range.clone()] != MASK {
            continue;
        }
        match vault.get_in(read, scope, &name).await {
            Ok(Some(secret)) => url.replace_range(range, secret.expose()),
            // A backup was restored without its secrets.
            Ok(None) => {
                let what = name.trim_start_matches(PREFIX);
                return Ok(Err(format!("the {what} of the URL is missing; enter the complete URL again")));
            }
            Err(error @ VaultError::Unsealable { .. }) => return Ok(Err(error.to_string())),
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(url))
}

/// Adds the credentials of a URL to the redactor.
pub fn redact_url_secrets(redactor: &mut Redactor, url: &str) {
    for CredentialSpan { range, .. } in find_credentials(url) {
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

/// Normalizes the URL in a text so that [`find_credentials`] finds every credential, because URL parsers ignore line
/// breaks and treat `\` as `/`. URLs with placeholders or without credentials are not changed.
fn canonical(text: &str) -> String {
    let (before, url) = split(text.trim());
    match Url::parse(url) {
        Ok(parsed) if !text.contains("{{") && !find_credentials(parsed.as_str()).is_empty() => {
            format!("{before}{parsed}")
        }
        _ => text.trim().to_owned(),
    }
}

/// Splits a text into a prefix such as `webhook:` and the URL.
fn split(text: &str) -> (&str, &str) {
    let is_web = |text: &str| Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    match text.split_once(':') {
        Some((before, rest)) if !is_web(text) && is_web(rest) => text.split_at(before.len() + 1),
        _ => ("", text),
    }
}

/// Returns the origin of the URL at the end of a text.
fn url_server(text: &str) -> Option<String> {
    // Placeholders may have any value, but hosts contain none.
    let plain = text.trim().replace("{{", "").replace("}}", "").replace(MASK, "x");
    server_origin(split(&plain).1)
}

/// Finds the credentials of a URL in order: the user info, and query parameters with a name of a credential.
fn find_credentials(text: &str) -> Vec<CredentialSpan> {
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
            if !value.is_empty() && !value.contains("{{") && is_credential_parameter(&name_shown) {
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

/// Whether a query parameter with this lowercase name contains a credential.
pub fn is_credential_parameter(name: &str) -> bool {
    const PARTS: [&str; 9] =
        ["token", "secret", "password", "passwd", "passphrase", "apikey", "signature", "credential", "accesskey"];
    const WORDS: [&str; 11] =
        ["key", "sig", "auth", "authorization", "pass", "pwd", "jwt", "bearer", "hmac", "pin", "sid"];
    let plain: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    // `code` is the parameter for function keys of Azure Functions.
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
    fn credentials_are_extracted_from_url() {
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
    fn masked_credentials_are_retained_on_the_same_server() {
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
            // Nested URLs and malformed URLs.
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
    fn url_credentials_are_redacted_in_plain_and_encoded_form() {
        let mut redactor = Redactor::default();
        redact_url_secrets(&mut redactor, "https://ada:l%2Fvelace@x.example/?token=abcdefgh&q=public-value");
        let text = "Basic YWRhOmwvdmVsYWNl, l/velace, l%2Fvelace, abcdefgh, public-value";
        assert_eq!(redactor.redact(text), "Basic [hidden], [hidden], [hidden], [hidden], public-value");
    }

    proptest! {
        #[test]
        fn sealing_is_idempotent(text in "(webhook:)?https?:[/\\\\]{0,3}\\PC{0,40}", token in "[a-z0-9]{12}") {
            for url in [format!("{text}?token={token}"), text.replacen("://", &format!("://{token}@"), 1)] {
                let Ok(sealed) = SealedUrl::new(&url, None, UnknownMask::Leave) else { continue };
                let again = SealedUrl::new(&sealed.shown, Some(&sealed.shown), UnknownMask::Refuse).unwrap();
                prop_assert_eq!((&again.shown, again.secrets.len()), (&sealed.shown, 0));
            }
        }
    }
}
