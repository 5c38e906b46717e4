//! Headers of a single connection (RFC 9110, 7.6.1), which are neither forwarded nor set by callers.

use http::header::{CONNECTION, HOST};
use http::{HeaderMap, HeaderName};

/// Hop-by-hop headers, in addition to those named by `Connection`.
const HOP_BY_HOP: [&str; 12] = [
    "connection",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Removes headers that must not be forwarded: the list above and those named by `Connection`.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Returns the reason why a caller may not set this header. `Host` would name another server than the one that was
/// checked; the others could make two parsers disagree about the end of the request.
pub(crate) fn problem_with(name: &HeaderName) -> Option<&'static str> {
    let is_ours = name == HOST || name == "content-length" || HOP_BY_HOP.contains(&name.as_str());
    is_ours.then_some("Host, Content-Length and connection headers are set by the client and cannot be overridden")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Secret"),
            ("connection", "x-other"),
            ("x-secret", "1"),
            ("x-other", "1"),
            ("proxy-authorization", "Basic x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
        ] {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value));
        }
        remove_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
