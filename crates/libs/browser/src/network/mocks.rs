//! Mock responses that replace those of a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::pattern::UrlPattern;
use crate::BrowserError;

pub const MAX_MOCKS: usize = 100;
/// Maximum total size of the bodies and headers of all mocks.
pub const MAX_MOCK_BYTES: usize = 16 << 20;
const MAX_PATTERN_BYTES: usize = 2_000;
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 16 << 10;

/// Response to requests that match a URL pattern; such requests are not sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mock {
    /// Pattern in which `*` matches anything but a slash and `**` matches anything.
    pub url_pattern: String,
    pub status_code: u16,
    pub body: String,
    pub headers: BTreeMap<String, String>,
    #[serde(skip)]
    pattern: UrlPattern,
}

#[derive(Debug, Default)]
pub(crate) struct Mocks(Vec<Arc<Mock>>);

impl Mock {
    /// Creates a validated mock.
    ///
    /// # Errors
    /// Problems, each with the name of the field.
    pub fn new(
        url_pattern: String,
        status_code: u16,
        body: String,
        headers: BTreeMap<String, String>,
    ) -> Result<Self, Vec<(&'static str, String)>> {
        let mut problems = Vec::new();
        if !["http://", "https://", "*://", "**"].iter().any(|start| url_pattern.starts_with(start)) {
            let message =
                "must begin with `http://`, `https://`, `*://` or `**`, because it is matched against the whole URL";
            problems.push(("url_pattern", message.to_owned()));
        }
        if url_pattern.len() > MAX_PATTERN_BYTES {
            problems.push(("url_pattern", format!("must be at most {MAX_PATTERN_BYTES} bytes long")));
        }
        if !(200..=599).contains(&status_code) {
            problems.push(("status_code", "must be between 200 and 599".to_owned()));
        }
        if let Some(problem) = header_problem(&headers) {
            problems.push(("headers", problem));
        }
        let pattern = UrlPattern::new(&url_pattern);
        let mock = Self { url_pattern, status_code, body, headers, pattern };
        if problems.is_empty() { Ok(mock) } else { Err(problems) }
    }

    fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        self.body.len() + headers
    }
}

impl Mocks {
    pub(crate) fn list(&self) -> Vec<Arc<Mock>> {
        self.0.clone()
    }

    pub(crate) fn add(&mut self, mock: Mock) -> Result<Arc<Mock>, BrowserError> {
        let others = self.0.iter().filter(|other| other.url_pattern != mock.url_pattern);
        let (count, bytes) = others.fold((1, mock.bytes()), |(count, bytes), other| (count + 1, bytes + other.bytes()));
        if count > MAX_MOCKS {
            return Err(BrowserError::LimitExceeded(format!("mock limit reached ({MAX_MOCKS}); delete a mock first")));
        }
        if bytes > MAX_MOCK_BYTES {
            let message =
                format!("the bodies and headers of all mocks would exceed {MAX_MOCK_BYTES} bytes; delete a mock first");
            return Err(BrowserError::LimitExceeded(message));
        }
        self.remove(Some(&mock.url_pattern));
        let mock = Arc::new(mock);
        self.0.push(Arc::clone(&mock));
        Ok(mock)
    }

    pub(crate) fn remove(&mut self, pattern: Option<&str>) -> usize {
        let before = self.0.len();
        self.0.retain(|mock| pattern.is_some_and(|pattern| mock.url_pattern != pattern));
        before - self.0.len()
    }

    /// Returns the matching mock that was added last.
    pub(super) fn find(&self, url: &str) -> Option<Arc<Mock>> {
        self.0.iter().rev().find(|mock| mock.pattern.matches(url)).cloned()
    }

    /// Returns the patterns of requests that Chromium must pause; `None` if there are no mocks.
    pub(crate) fn interception(&self) -> Option<Value> {
        let patterns = self.0.iter().map(|mock| json!({"urlPattern": mock.pattern.chromium_pattern()}));
        (!self.0.is_empty()).then(|| json!({"patterns": patterns.collect::<Vec<_>>()}))
    }
}

/// Returns a problem that makes these headers invalid for HTTP.
pub(crate) fn header_problem(headers: &BTreeMap<String, String>) -> Option<String> {
    if headers.len() > MAX_HEADERS {
        return Some(format!("must have at most {MAX_HEADERS} entries"));
    }
    let is_name = |name: &str| {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        !name.is_empty() && name.chars().all(is_token)
    };
    let is_value = |value: &str| value.trim() == value && value.chars().all(|c| matches!(c, ' '..='~' | '\t'));
    if let Some(name) = headers.keys().find(|name| !is_name(name)) {
        return Some(format!("`{}` is not a valid header name", super::truncate(name, 100)));
    }
    if let Some((name, _)) = headers.iter().find(|(_, value)| !is_value(value)) {
        return Some(format!(
            "the value of `{}` contains characters that are not allowed in a header",
            super::truncate(name, 100)
        ));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    (bytes > MAX_HEADER_BYTES).then(|| format!("must have at most {MAX_HEADER_BYTES} bytes in total"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mock(pattern: &str, body: &str) -> Mock {
        Mock::new(pattern.to_owned(), 200, body.to_owned(), BTreeMap::new()).unwrap()
    }

    #[test]
    fn new_reports_all_problems() {
        let headers = BTreeMap::from([("a b".to_owned(), "x\r\ny".to_owned())]);
        let problems = Mock::new("x".repeat(3_000), 99, String::new(), headers).unwrap_err();
        let fields: Vec<_> = problems.iter().map(|(field, _)| *field).collect();
        assert_eq!(fields, ["url_pattern", "url_pattern", "status_code", "headers"]);
    }

    #[test]
    fn last_mock_wins_and_limits_apply() {
        let mut mocks = Mocks::default();
        assert!(mocks.interception().is_none());
        mocks.add(mock("**", "all")).unwrap();
        mocks.add(mock("**/x", "one")).unwrap();
        assert_eq!(mocks.find("http://a/x").unwrap().body, "one");
        assert_eq!(mocks.find("http://a/y").unwrap().body, "all");
        mocks.add(mock("**", "all again")).unwrap();
        assert_eq!((mocks.list().len(), mocks.find("http://a/x").unwrap().body.as_str()), (2, "all again"));
        for number in 2..MAX_MOCKS {
            mocks.add(mock(&format!("**/{number}"), "")).unwrap();
        }
        assert_eq!(mocks.add(mock("**/more", "")).unwrap_err().code(), "limit_exceeded");
        mocks.add(mock("**/x", &"x".repeat(MAX_MOCK_BYTES - 100))).unwrap();
        assert_eq!(mocks.add(mock("**/2", &"x".repeat(200))).unwrap_err().code(), "limit_exceeded");
        assert_eq!(
            (mocks.remove(Some("**/none")), mocks.remove(Some("**/x")), mocks.remove(None)),
            (0, 1, MAX_MOCKS - 1)
        );
    }
}
