//! URLs in responses. Read-only keys see scheme and host only, because paths, queries and user information may contain
//! credentials.

use std::borrow::Cow;
use std::sync::LazyLock;

use agentd_base::HIDDEN;
use agentd_web::{Caller, Scope};
use regex::Regex;
use serde::Serialize;
use serde_json::Value;
use url::Url;

/// A URL up to the next character that cannot be part of one.
#[allow(clippy::expect_used, reason = "the pattern is constant")]
static URLS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?i)\b(?:[a-z][a-z0-9+.-]*://|data:|blob:)[^\s"'<>`\\]*"#).expect("a pattern"));

/// A comparison with an attribute that holds a URL, in a selector.
#[allow(clippy::expect_used, reason = "the pattern is constant")]
static URL_ATTRIBUTES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\b(?:href|src|srcset|action|formaction|data|poster|cite)\b").expect("a pattern"));

/// The part of URLs that a caller may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlAccess {
    Full,
    ServerOnly,
}

impl From<&Caller> for UrlAccess {
    fn from(caller: &Caller) -> Self {
        match caller.scope {
            Scope::Full => Self::Full,
            Scope::Read => Self::ServerOnly,
        }
    }
}

/// URL reduced to what the caller may see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct VisibleUrl(String);

impl VisibleUrl {
    pub(super) fn into_string(self) -> String {
        self.0
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl UrlAccess {
    pub(super) fn url(self, url: String) -> VisibleUrl {
        VisibleUrl(match self {
            Self::Full => url,
            Self::ServerOnly => server_part(&url),
        })
    }

    /// Shortens every URL in a text.
    pub(super) fn text(self, text: String) -> String {
        if self == Self::Full {
            return text;
        }
        match URLS.replace_all(&text, |found: &regex::Captures<'_>| server_part(&found[0])) {
            Cow::Borrowed(_) => text,
            Cow::Owned(shortened) => shortened,
        }
    }

    /// Hides a selector that compares a URL.
    pub(super) fn selector(self, selector: String) -> String {
        if self == Self::ServerOnly && URL_ATTRIBUTES.is_match(&selector) {
            return HIDDEN.to_owned();
        }
        self.text(selector)
    }

    /// Shortens every URL in the parameters of an action.
    pub(super) fn parameter(self, name: &str, value: Value) -> Value {
        match (name, value) {
            ("url", Value::String(url)) => Value::String(self.url(url).0),
            ("selector" | "source" | "target", Value::String(selector)) => Value::String(self.selector(selector)),
            (_, Value::String(text)) => Value::String(self.text(text)),
            (_, value) => value,
        }
    }

    /// Hides a text that may carry credentials itself.
    pub(super) fn hidden(self, text: String) -> String {
        if self == Self::Full || text.is_empty() { text } else { HIDDEN.to_owned() }
    }
}

/// Returns scheme, host and port; only the scheme of a URL without a host.
fn server_part(url: &str) -> String {
    let Ok(parsed) = Url::parse(url) else { return HIDDEN.to_owned() };
    let port = parsed.port().map(|port| format!(":{port}")).unwrap_or_default();
    match parsed.host_str() {
        Some(host) => format!("{}://{host}{port}", parsed.scheme()),
        None if parsed.as_str() == "about:blank" => "about:blank".to_owned(),
        None => format!("{}:", parsed.scheme()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_are_shortened_to_their_server() {
        for (url, shown) in [
            ("https://ada:love@shop.example:8443/reset/abc?token=x#y", "https://shop.example:8443"),
            ("http://[::1]:80/a", "http://[::1]"),
            ("about:blank", "about:blank"),
            ("data:text/html,secret", "data:"),
            ("blob:https://shop.example/secret", "blob:"),
            ("chrome-error://chromewebdata/", "chrome-error://chromewebdata"),
            ("/reset/abc", HIDDEN),
            ("{{secret:1}}", HIDDEN),
        ] {
            assert_eq!(UrlAccess::ServerOnly.url(url.to_owned()).as_str(), shown);
            assert_eq!(UrlAccess::Full.url(url.to_owned()).as_str(), url);
        }
    }

    #[test]
    fn urls_in_texts_and_selectors_are_shortened_or_hidden() {
        let access = UrlAccess::ServerOnly;
        let caption = "goto https://shop.example/reset?token=x".to_owned();
        assert_eq!(access.text(caption.clone()), "goto https://shop.example");
        assert_eq!(UrlAccess::Full.text(caption.clone()), caption);
        assert_eq!(access.selector("a[href=\"/reset/abc\"]".to_owned()), HIDDEN);
        assert_eq!(access.selector("xpath=//a[@HREF='/x']".to_owned()), HIDDEN);
        assert_eq!(access.selector("role=button[name=\"Save\"]".to_owned()), "role=button[name=\"Save\"]");
        assert_eq!(access.parameter("url", json!("https://a.example/x")), json!("https://a.example"));
        assert_eq!(access.parameter("timeout_ms", json!(5)), json!(5));
    }
}
