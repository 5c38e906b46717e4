//! Where spans go, as an owner writes it down.

use agentd_base::Secret;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use url::Url;

/// Of the base address that collectors are configured by.
const TRACES_PATH: &str = "v1/traces";
const MAX_HEADERS: usize = 32;
/// What the exporter or the connection sets itself.
const RESERVED: [&str; 6] = ["connection", "content-length", "content-type", "host", "transfer-encoding", "upgrade"];

/// A collector that spans are sent to.
#[derive(Debug, Clone)]
pub struct Collector {
    pub(crate) url: Url,
    /// Values are marked as sensitive, and show nothing in `Debug`.
    pub(crate) headers: HeaderMap,
    pub(crate) keeps_content: bool,
}

/// Reads where spans go: the base address of a collector, to which `/v1/traces` is added unless it ends so, and
/// headers as `key=value,key=value`, where a value may be percent-encoded.
///
/// # Errors
/// A sentence for each of what is not valid. None of them holds a header's value.
pub fn parse_collector(
    endpoint: &str,
    headers: Option<&Secret>,
    keeps_content: bool,
) -> Result<Collector, Vec<String>> {
    let mut problems = Vec::new();
    let url = parse_endpoint(endpoint);
    if url.is_none() {
        problems.push(
            "SVC_OTLP_ENDPOINT must be the address of a collector such as http://localhost:4318, without credentials, \
             query and fragment; a key belongs in SVC_OTLP_HEADERS"
                .to_owned(),
        );
    }
    let headers = parse_headers(headers.map_or("", Secret::expose)).unwrap_or_else(|problem| {
        problems.push(format!("SVC_OTLP_HEADERS: {problem}"));
        HeaderMap::new()
    });
    match url {
        Some(url) if problems.is_empty() => Ok(Collector { url, headers, keeps_content }),
        _ => Err(problems),
    }
}

fn parse_endpoint(text: &str) -> Option<Url> {
    let text = text.trim();
    let is_spelled_out = ["http://", "https://"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)));
    let mut url = Url::parse(text).ok().filter(|_| is_spelled_out)?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.host_str().is_some_and(|host| !host.is_empty());
    if !is_plain {
        return None;
    }
    let path = url.path().trim_end_matches('/');
    if !path.ends_with(&format!("/{TRACES_PATH}")) {
        let path = format!("{path}/{TRACES_PATH}");
        url.set_path(&path);
    }
    Some(url)
}

fn parse_headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err("an entry has no `=`; write key=value,key=value".to_owned());
        };
        let name = HeaderName::try_from(name.trim())
            .map_err(|_| "the name of an entry may hold letters, digits and hyphens only".to_owned())?;
        if RESERVED.contains(&name.as_str()) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn collector(endpoint: &str, headers: &str) -> Result<Collector, Vec<String>> {
        parse_collector(endpoint, Some(&Secret::new(headers.to_owned())), false)
    }

    #[test]
    fn spans_go_below_the_base_address() {
        for (endpoint, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://otel.example/otlp/", "https://otel.example/otlp/v1/traces"),
            (" https://otel.example/v1/traces ", "https://otel.example/v1/traces"),
        ] {
            assert_eq!(collector(endpoint, "").unwrap().url.as_str(), url, "{endpoint}");
        }
    }

    #[test]
    fn what_is_no_collector_is_refused() {
        for endpoint in [
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
            let problems = collector(endpoint, "").unwrap_err();
            assert!(problems.len() == 1 && problems[0].contains("SVC_OTLP_ENDPOINT"), "{endpoint}: {problems:?}");
            assert!(!problems[0].contains("s3cret"), "{problems:?}");
        }
    }

    #[test]
    fn headers_are_read_and_shown_to_nobody() {
        let read = collector("http://c", "Authorization=Basic%20s3cret, x-tenant = 7 ,").unwrap();
        assert_eq!(read.headers["authorization"], "Basic s3cret");
        assert_eq!(read.headers["x-tenant"], "7");
        assert!(!format!("{read:?}").contains("s3cret"), "{read:?}");
        for headers in ["s3cret", "Host=s3cret", "a b=s3cret", "x=s3cret,X=s3cret", "x=s3cret%0d%0ay", "x="] {
            let problems = collector("http://c", headers).unwrap_err();
            assert!(problems[0].starts_with("SVC_OTLP_HEADERS: "), "{problems:?}");
            assert!(!problems[0].contains("s3cret"), "{problems:?}");
        }
    }

    #[test]
    fn every_problem_is_named_at_once() {
        assert_eq!(collector("nowhere", "nothing").unwrap_err().len(), 2);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(endpoint in ".{0,60}", headers in ".{0,60}") {
            let _ = collector(&endpoint, &headers);
        }
    }
}
