//! Headers that the owner configured for a server.

use agentd_base::Secret;
use agentd_net::GuardedRequest;
use http::{HeaderName, HeaderValue};

use crate::McpError;

const MAX_HEADERS: usize = 64;

/// Headers that the transport sets itself.
const RESERVED: [&str; 13] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Validated header names with values that are never displayed.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnerHeaders(Vec<(HeaderName, Secret)>);

impl OwnerHeaders {
    /// Validates and converts headers.
    ///
    /// # Errors
    /// [`McpError::Header`].
    pub(crate) fn new(headers: &[(String, Secret)]) -> Result<Self, McpError> {
        let refuse = |name: &str, problem| Err(McpError::Header { name: crate::text::one_line(name, 100), problem });
        let mut checked: Vec<(HeaderName, Secret)> = Vec::with_capacity(headers.len());
        for (name, value) in headers {
            let Ok(parsed) = HeaderName::try_from(name.as_str()) else {
                return refuse(name, "the name may contain only letters, digits and hyphens");
            };
            if RESERVED.contains(&parsed.as_str()) || parsed.as_str().starts_with("mcp-param-") {
                return refuse(name, "it is set by the protocol");
            }
            if HeaderValue::try_from(value.expose()).is_err() {
                return refuse(name, "its value contains characters that are not valid in headers");
            }
            if checked.iter().any(|(earlier, _)| *earlier == parsed) {
                return refuse(name, "it occurs twice");
            }
            if checked.len() == MAX_HEADERS {
                return refuse(name, "there are too many headers");
            }
            checked.push((parsed, value.clone()));
        }
        Ok(Self(checked))
    }

    pub(crate) fn apply(&self, mut request: GuardedRequest) -> GuardedRequest {
        for (name, value) in &self.0 {
            if let Ok(mut value) = HeaderValue::try_from(value.expose()) {
                value.set_sensitive(true);
                request = request.header(name.clone(), value);
            }
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(name: &str, value: &str) -> Option<String> {
        let headers = [(name.to_owned(), Secret::new(value.to_owned()))];
        OwnerHeaders::new(&headers).err().map(|error| error.to_string())
    }

    #[test]
    fn protocol_headers_are_rejected() {
        assert_eq!(problem_of("Authorization", "Bearer abc"), None);
        assert_eq!(problem_of("X-Api-Key", "abc"), None);
        for name in ["Host", "Mcp-Session-Id", "MCP-Param-City", "content-length"] {
            assert!(problem_of(name, "x").is_some_and(|problem| problem.contains("set by the protocol")), "{name}");
        }
        assert!(problem_of("bad name", "x").is_some());
    }

    #[test]
    fn invalid_value_is_rejected_without_being_shown() {
        let problem = problem_of("Authorization", "Bearer s3cret\r\nHost: evil").expect("a refusal");
        assert!(!problem.contains("s3cret"), "{problem}");
    }
}
