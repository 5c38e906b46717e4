//! Reasons why a request failed. Messages name the host, never path, query or headers.

use std::sync::Arc;

use agentd_base::{DomainError, ErrorKind, FieldProblem};

use crate::{AddressClass, Trust};

/// Shareable source, so that the error can be cloned from another error's chain.
pub(crate) type Source = Arc<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum NetError {
    #[error("the URL must start with http:// or https://, not {scheme}://")]
    Scheme { scheme: String },
    #[error("the WebSocket URL must start with ws:// or wss://, not {scheme}://")]
    WebSocketScheme { scheme: String },
    #[error("the URL has no host")]
    NoHost,
    #[error("{host} is listed in security.blocked_hosts; remove it from the list to permit it")]
    Blocked { host: String },
    #[error("{host} is {}, which {}; {}", class.describe(), reason(*trust), remedy(*class))]
    Refused { host: String, class: AddressClass, trust: Trust },
    #[error("port {port} of {host} is used by a protocol other than HTTP; {}", port_remedy(*port))]
    Port { host: String, port: u16 },
    #[error("port {port} of {host} is not listed in {setting}; add it there to permit it")]
    PortNotListed { host: String, port: u16, setting: &'static str },
    #[error("{host} redirected more than {limit} times; request the final URL")]
    TooManyRedirects { host: String, limit: usize },
    #[error("{host} redirected {problem}")]
    Redirect { host: String, problem: &'static str },
    #[error("{host} responded with the unsupported content encoding `{encoding}`")]
    Encoding { host: String, encoding: String },
    #[error("the name {host} could not be resolved; check its spelling and this machine's DNS")]
    Resolve { host: String, source: Source },
    #[error("could not connect to {host}")]
    Connect { host: String, source: Source },
    #[error("the certificate of {host} was rejected: {problem}")]
    Certificate { host: String, problem: &'static str, source: Source },
    #[error("{host} did not respond in time")]
    Timeout { host: String },
    #[error("the connection to {host} failed")]
    Transport { host: String, source: Source },
    #[error("the request could not be built: {problem}")]
    Request { problem: &'static str },
    #[error("failed to initialize the HTTP client")]
    Client { source: Source },
}

fn reason(trust: Trust) -> &'static str {
    match trust {
        Trust::Untrusted => "agents must not access",
        Trust::Owner => "is not permitted by default",
    }
}

fn remedy(class: AddressClass) -> &'static str {
    match class {
        AddressClass::Unreachable => "use the address of the server instead",
        _ => "add it to security.allowed_hosts to permit it",
    }
}

fn port_remedy(port: u16) -> &'static str {
    if port == 0 { "use the port of the server" } else { "add the host to security.allowed_hosts to permit it" }
}

impl NetError {
    /// Whether the policy rejected the request; retrying is useless until the settings change.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Scheme { .. }
                | Self::WebSocketScheme { .. }
                | Self::NoHost
                | Self::Blocked { .. }
                | Self::Refused { .. }
                | Self::Port { .. }
                | Self::PortNotListed { .. }
        )
    }

    /// Converts an error of the HTTP client; a refusal by the resolver, which the client only wraps, is returned
    /// unchanged.
    #[must_use]
    pub fn from_reqwest(host: &str, error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            if let Some(ours) = inner.downcast_ref::<Self>() {
                return ours.clone();
            }
            cause = inner.source();
        }
        let host = host.to_owned();
        if error.is_builder() {
            Self::Request { problem: "a header or the body is not valid" }
        } else if error.is_timeout() {
            Self::Timeout { host }
        } else if let Some(problem) = certificate_problem(&error) {
            Self::Certificate { host, problem, source: Arc::new(error) }
        } else if error.is_connect() {
            Self::Connect { host, source: Arc::new(error) }
        } else {
            Self::Transport { host, source: Arc::new(error) }
        }
    }
}

impl NetError {
    /// Classifies an error of opening a connection, including its TLS handshake.
    pub(crate) fn from_connect_error(host: &str, error: std::io::Error) -> Self {
        let host = host.to_owned();
        match certificate_problem(&error) {
            Some(problem) => Self::Certificate { host, problem, source: Arc::new(error) },
            None => Self::Connect { host, source: Arc::new(error) },
        }
    }
}

/// Finds a certificate error in a chain of errors and describes it. The description never quotes the certificate, which
/// is untrusted.
fn certificate_problem(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    use rustls::CertificateError as Problem;

    let mut cause = Some(error);
    while let Some(inner) = cause {
        match inner.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(problem)) => {
                return Some(match problem {
                    Problem::Expired | Problem::ExpiredContext { .. } => "it has expired",
                    Problem::NotValidYet | Problem::NotValidYetContext { .. } => {
                        "it is not valid yet; check the clock of this machine"
                    }
                    Problem::NotValidForName | Problem::NotValidForNameContext { .. } => "it is for another name",
                    Problem::UnknownIssuer => "its issuer is not trusted by this machine",
                    Problem::Revoked => "it was revoked",
                    _ => "it is not valid",
                });
            }
            Some(rustls::Error::NoCertificatesPresented) => return Some("the server sent none"),
            _ => {}
        }
        // The source of an I/O error is the source of the inner error, so the inner error itself would be skipped.
        cause = match inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => inner.source(),
        };
    }
    None
}

impl DomainError for NetError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Scheme { .. }
            | Self::WebSocketScheme { .. }
            | Self::NoHost
            | Self::Blocked { .. }
            | Self::Refused { .. }
            | Self::Port { .. }
            | Self::PortNotListed { .. } => {
                ErrorKind::Invalid(vec![FieldProblem { field: "url".to_owned(), message: self.to_string() }])
            }
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Certificate { .. }
            | Self::Timeout { .. }
            | Self::Transport { .. }
            | Self::TooManyRedirects { .. }
            | Self::Redirect { .. }
            | Self::Encoding { .. } => ErrorKind::Upstream,
            Self::Request { .. } | Self::Client { .. } => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Scheme { .. } | Self::WebSocketScheme { .. } => "scheme_not_supported",
            Self::NoHost => "host_missing",
            Self::Blocked { .. } => "host_blocked",
            Self::Refused { .. } => "address_refused",
            Self::Port { .. } | Self::PortNotListed { .. } => "port_refused",
            Self::TooManyRedirects { .. } => "too_many_redirects",
            Self::Redirect { .. } => "redirect_refused",
            Self::Encoding { .. } => "encoding_not_supported",
            Self::Resolve { .. } => "name_not_resolved",
            Self::Connect { .. } => "connection_refused",
            Self::Certificate { .. } => "certificate_refused",
            Self::Timeout { .. } => "upstream_timeout",
            Self::Transport { .. } => "connection_failed",
            Self::Request { .. } | Self::Client { .. } => "internal",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustls::CertificateError;

    use super::*;

    fn wrapped(error: rustls::Error) -> io::Error {
        io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    #[test]
    fn certificate_errors_are_described() {
        for (problem, sentence) in [
            (CertificateError::Expired, "it has expired"),
            (CertificateError::NotValidForName, "it is for another name"),
            (CertificateError::UnknownIssuer, "its issuer is not trusted by this machine"),
            (CertificateError::BadSignature, "it is not valid"),
        ] {
            let error = NetError::from_connect_error("a.example", wrapped(rustls::Error::InvalidCertificate(problem)));
            assert_eq!(error.to_string(), format!("the certificate of a.example was rejected: {sentence}"));
            assert_eq!((error.code(), error.is_refusal()), ("certificate_refused", false));
            assert_eq!(error.kind(), ErrorKind::Upstream);
        }
    }

    #[test]
    fn other_connect_errors_keep_their_code() {
        for error in [
            io::Error::from(io::ErrorKind::ConnectionRefused),
            wrapped(rustls::Error::HandshakeNotComplete),
            io::Error::other("certificate"),
        ] {
            assert_eq!(NetError::from_connect_error("a.example", error).code(), "connection_refused");
        }
    }
}
