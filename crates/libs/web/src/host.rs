//! Validation of the `Host` header, as a defence against DNS rebinding.

use std::net::IpAddr;

use axum::extract::Request;
use http::header::HOST;
use http::{StatusCode, Version};

use crate::error::ApiError;

/// Host names accepted by this daemon. `localhost` and IP literals are always accepted: rebinding needs a name.
#[derive(Debug, Clone, Default)]
pub struct HostPolicy {
    names: Vec<String>,
}

impl HostPolicy {
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: names.into_iter().map(|name| normalize(&name)).collect() }
    }

    /// Whether a `Host` header or the authority of an absolute request target is accepted.
    #[must_use]
    pub fn allows(&self, host: &str) -> bool {
        let name = without_port(host);
        if let Some(literal) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return literal.parse::<std::net::Ipv6Addr>().is_ok();
        }
        let name = normalize(name);
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()) || self.names.contains(&name)
    }
}

fn normalize(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_exempt(path: &str) -> bool {
    // Orchestrators probe with arbitrary names, and these responses contain no private data.
    matches!(path, "/health" | "/health/live" | "/health/ready" | "/api/health" | "/api/metrics/prometheus")
}

impl HostPolicy {
    /// Checks a request; runs after CORS and before authentication.
    pub(crate) fn check(&self, request: &Request) -> Result<(), ApiError> {
        require_one_host(request)?;
        if is_exempt(request.uri().path()) {
            return Ok(());
        }
        // A request without a Host header (HTTP/1.0) cannot come from a browser.
        let header = request.headers().get(HOST).map(|value| value.to_str().unwrap_or("\u{fffd}"));
        let authority = request.uri().authority().map(http::uri::Authority::as_str);
        if [header, authority].into_iter().flatten().all(|host| self.allows(host)) {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "unknown_host",
            "The host name is not allowed; use the IP address or localhost, or add the name to SVC_ALLOWED_HOSTS",
        ))
    }
}

/// Requires exactly one Host header, as HTTP/1.1 does (RFC 9112, section 3.2). Proxies and servers that treat several
/// or none differently can be exploited.
fn require_one_host(request: &Request) -> Result<(), ApiError> {
    let count = request.headers().get_all(HOST).iter().count();
    if count == 1 || (count == 0 && request.version() < Version::HTTP_11) {
        return Ok(());
    }
    Err(ApiError::new(StatusCode::BAD_REQUEST, "bad_host", "Send exactly one Host header"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_rejected_and_literals_accepted() {
        let policy = HostPolicy::new(["Agents.Example".to_owned()]);
        for host in
            ["localhost", "LOCALHOST:7878", "127.0.0.1:1", "[::1]:7878", "[::1]", "192.168.1.9", "agents.example.:443"]
        {
            assert!(policy.allows(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::1",
            "",
            "[evil]",
            "2130706433",
            "a:b",
        ] {
            assert!(!policy.allows(host), "{host}");
        }
    }
}
