//! Parsing of individual values: standard variables, URLs, headers and lists.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use url::Url;

const MAX_HEADERS: usize = 32;
const MAX_ATTRIBUTES: usize = 64;
/// Headers set by the exporter or the connection.
const RESERVED_HEADERS: [&str; 7] =
    ["connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding", "upgrade"];
const PREFIX: &str = "OTEL_";

/// The `OTEL_*` variables of the process (<https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>).
/// `Debug` shows only the names, because a value may contain a key.
#[derive(Clone, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Reads the environment. Values that are not Unicode are ignored.
    #[must_use]
    pub fn from_env() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Returns the value; an empty one counts as unset, according to the specification.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// Returns the variable for one signal, else the one for all signals, with its name.
    pub(crate) fn for_signal(&self, signal: &str, suffix: &str) -> Option<(String, &str)> {
        [format!("OTEL_EXPORTER_OTLP_{signal}_{suffix}"), format!("OTEL_EXPORTER_OTLP_{suffix}")]
            .into_iter()
            .find_map(|name| self.get(&name).map(|value| (name, value)))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let named = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(named.filter(|(name, _)| name.starts_with(PREFIX)).collect())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Parses the URL of a collector: `http` or `https`, a host, and no credentials, query or fragment.
pub(crate) fn parse_address(text: &str) -> Option<Url> {
    let text = text.trim();
    let is_spelled_out = ["http://", "https://"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)));
    let url = Url::parse(text).ok().filter(|_| is_spelled_out)?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.host_str().is_some_and(|host| !host.is_empty());
    is_plain.then_some(url)
}

/// Parses headers of the form `key=value,key=value` with percent-encoded values. Values are marked as sensitive.
///
/// # Errors
/// A message without header values.
pub(crate) fn parse_headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err("an entry has no `=`; write key=value,key=value".to_owned());
        };
        let name = HeaderName::try_from(name.trim())
            .map_err(|_| "the name of an entry may hold letters, digits and hyphens only".to_owned())?;
        if RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(format!("`{name}` is set by the daemon itself"));
        }
        let value = percent_decode_str(value.trim()).decode_utf8().ok();
        let value = value.and_then(|value| HeaderValue::from_str(&value).ok());
        let Some(mut value) = value.filter(|value| !value.is_empty()) else {
            return Err(format!("the value of `{name}` is empty, or holds characters that headers cannot carry"));
        };
        value.set_sensitive(true);
        if headers.insert(&name, value).is_some() {
            return Err(format!("`{name}` is given twice"));
        }
        if headers.len() > MAX_HEADERS {
            return Err(format!("there are more than {MAX_HEADERS} entries"));
        }
    }
    Ok(headers)
}

/// Parses attributes of the form `key=value,key=value` with percent-encoded values.
pub(crate) fn parse_attributes(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut attributes = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.trim().is_empty()) else {
            return Err("an entry has no name or no `=`; write key=value,key=value".to_owned());
        };
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| "a value is no UTF-8".to_owned())?;
        attributes.insert(key.trim().to_owned(), value.into_owned());
        if attributes.len() > MAX_ATTRIBUTES {
            return Err(format!("there are more than {MAX_ATTRIBUTES} entries"));
        }
    }
    Ok(attributes)
}

/// Parses a number within a range; returns the default if it is not set.
pub(crate) fn number(
    variables: &Variables,
    name: &str,
    range: RangeInclusive<u64>,
    default: u64,
    problems: &mut Vec<String>,
) -> u64 {
    let Some(text) = variables.get(name) else { return default };
    match text.parse() {
        Ok(number) if range.contains(&number) => number,
        _ => {
            let (least, most) = range.into_inner();
            problems.push(format!("{name} is `{text}`; it must be a whole number from {least} to {most}"));
            default
        }
    }
}

/// Parses a time in milliseconds within a range.
pub(crate) fn milliseconds(
    variables: &Variables,
    name: &str,
    range: RangeInclusive<u64>,
    default: Duration,
    problems: &mut Vec<String>,
) -> Duration {
    let default = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(number(variables, name, range, default, problems))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_collector_url_is_rejected() {
        for text in [
            "",
            "localhost:4318",
            "otel.example",
            "ftp://otel.example",
            "http:otel.example",
            "https://u:s3cret@otel.example",
            "https://otel.example/?key=s3cret",
            "https://otel.example/#x",
            "http://",
        ] {
            assert!(parse_address(text).is_none(), "{text}");
        }
        assert!(parse_address(" HTTPS://otel.example/otlp ").is_some());
    }

    #[test]
    fn header_values_are_decoded_and_never_shown() {
        let read = parse_headers("Authorization=Basic%20s3cret, x-tenant = 7 ,").unwrap();
        assert_eq!(read["authorization"], "Basic s3cret");
        assert_eq!(read["x-tenant"], "7");
        assert!(!format!("{read:?}").contains("s3cret"), "{read:?}");
        for headers in ["s3cret", "Host=s3cret", "a b=s3cret", "x=s3cret,X=s3cret", "x=s3cret%0d%0ay", "x="] {
            let problem = parse_headers(headers).unwrap_err();
            assert!(!problem.contains("s3cret"), "{problem}");
        }
    }

    #[test]
    fn debug_shows_only_variable_names() {
        let variables =
            Variables::from_iter([("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret"), ("PATH", "/bin")]);
        assert_eq!(format!("{variables:?}"), r#"{"OTEL_EXPORTER_OTLP_HEADERS"}"#);
    }

    #[test]
    fn out_of_range_number_is_reported() {
        let mut problems = Vec::new();
        let variables = Variables::from_iter([("OTEL_A", "0"), ("OTEL_B", "many"), ("OTEL_C", "7"), ("OTEL_D", " ")]);
        let read = |name: &str, problems: &mut Vec<String>| number(&variables, name, 1..=10, 5, problems);
        assert_eq!((read("OTEL_C", &mut problems), read("OTEL_D", &mut problems)), (7, 5));
        assert!(problems.is_empty());
        read("OTEL_A", &mut problems);
        read("OTEL_B", &mut problems);
        assert!(problems.len() == 2 && problems[1].contains("OTEL_B is `many`"), "{problems:?}");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".{0,60}") {
            let _ = (parse_address(&text), parse_headers(&text), parse_attributes(&text));
        }
    }
}
