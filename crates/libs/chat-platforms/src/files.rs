//! Streaming download of the files in messages.
//!
//! Invariants
//! - A URL in a message is untrusted: it must be `https` and not a private address, unless it has the origin of the
//!   configured API.
//! - A credential is sent only to its intended origin, and never to a redirect target of another origin.

use std::time::Duration;

use agentd_base::Secret;
use agentd_net::{FetchLimits, FetchRequest, GuardedClient, OpenResponse};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use url::Url;

use crate::message::FileSource;
use crate::outgoing::SendError;

/// Maximum length of a URL in bytes.
const MAX_URL_BYTES: usize = 4_096;

/// File being downloaded.
#[derive(Debug)]
pub struct IncomingFile {
    opened: OpenResponse,
}

impl IncomingFile {
    /// Content length, if the server reports it.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.header(CONTENT_LENGTH.as_str())?.parse().ok()
    }

    /// Returns the next chunk, or `None` at the end.
    ///
    /// # Errors
    /// `Later` if the connection failed, was too slow, or ended before the file.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SendError> {
        Ok(self.opened.chunk().await?)
    }

    pub(crate) fn is_html(&self) -> bool {
        self.header(CONTENT_TYPE.as_str()).is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/html"))
    }

    /// URL of the response.
    pub(crate) fn url(&self) -> &Url {
        &self.opened.url
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.opened.headers.get(name)?.to_str().ok()
    }
}

/// Clients for file downloads.
#[derive(Debug)]
pub(crate) struct Files {
    name: &'static str,
    /// Client for the configured API.
    owner: GuardedClient,
    /// Client for URLs in messages.
    untrusted: GuardedClient,
    /// Configured API URL.
    base: Option<Url>,
    pub(crate) limits: FetchLimits,
}

impl Files {
    /// Creates clients. `name` is the platform name for messages.
    pub(crate) fn new(name: &'static str, client: &GuardedClient, base: Option<&Url>) -> Self {
        let limits = FetchLimits { redirects: 3, total_timeout: Duration::from_secs(20), ..FetchLimits::default() };
        Self { name, owner: client.clone(), untrusted: client.for_untrusted(), base: base.cloned(), limits }
    }

    /// Whether the URL has the origin of the configured API.
    pub(crate) fn has_api_origin(&self, url: &Url) -> bool {
        self.base.as_ref().is_some_and(|base| base.origin() == url.origin())
    }

    /// Returns the URL of a source, which must be `https` or have the origin of the configured API.
    pub(crate) fn url(&self, source: &FileSource) -> Result<Url, SendError> {
        let url = source.0["url"].as_str().and_then(|url| Url::parse(url).ok());
        let url = url.filter(|url| url.scheme() == "https" || self.has_api_origin(url));
        url.ok_or_else(|| SendError::Refused(format!("{} returned no https URL for the file", self.name)))
    }

    /// Returns the URL of a source like [`Self::url`], and requires one of these hosts or a subdomain.
    pub(crate) fn url_of(&self, source: &FileSource, hosts: &[&str]) -> Result<Url, SendError> {
        let url = self.url(source)?;
        if self.has_api_origin(&url) || is_host_or_subdomain(&url, hosts) {
            return Ok(url);
        }
        let host = url.host_str().unwrap_or_default();
        Err(SendError::Refused(format!("the file is on {host}, which is not a host of {}", self.name)))
    }

    /// Opens a file. `authorization` is a scheme and token for this URL only.
    ///
    /// # Errors
    /// `Credentials` for 401, `Gone` if the file no longer exists, `RateLimited`, `Later`, or `Refused`.
    pub(crate) async fn open(
        &self,
        url: Url,
        authorization: Option<(&str, &Secret)>,
    ) -> Result<IncomingFile, SendError> {
        let client = if self.has_api_origin(&url) { &self.owner } else { &self.untrusted };
        let mut request = FetchRequest::get(url);
        if let Some((scheme, token)) = authorization {
            let value = HeaderValue::from_str(&format!("{scheme} {}", token.expose()));
            let mut value = value.map_err(|_| {
                let name = self.name;
                SendError::Credentials(format!(
                    "the credentials of {name} contain characters that are not allowed in a header"
                ))
            })?;
            value.set_sensitive(true);
            request.headers.insert(AUTHORIZATION, value);
        }
        let opened = client.open(&self.untrusted, request, self.limits).await?;
        match refusal(self.name, opened.status) {
            Some(error) => Err(error),
            None => Ok(IncomingFile { opened }),
        }
    }
}

fn refusal(name: &str, status: StatusCode) -> Option<SendError> {
    let sentence = |what: &str| format!("{name} {what} ({})", status.as_u16());
    Some(match status {
        StatusCode::OK => return None,
        StatusCode::UNAUTHORIZED => SendError::Credentials(sentence("rejected the credentials for the file")),
        StatusCode::FORBIDDEN => SendError::Refused(sentence("denied access to the file")),
        StatusCode::NOT_FOUND | StatusCode::GONE => SendError::Gone(sentence("no longer has the file")),
        StatusCode::TOO_MANY_REQUESTS => {
            SendError::RateLimited { message: sentence("is rate limiting file downloads"), wait: None }
        }
        _ if status.is_server_error() => SendError::Later(sentence("failed to provide the file")),
        _ => SendError::Refused(sentence("did not return the file")),
    })
}

/// Whether the host is one of these or a subdomain.
pub(crate) fn is_host_or_subdomain(url: &Url, hosts: &[&str]) -> bool {
    let host = url.host_str().unwrap_or_default();
    hosts.iter().any(|known| host.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// Returns the source of a file with a URL.
pub(crate) fn at(url: &Value) -> Option<FileSource> {
    let url = url.as_str().filter(|url| url.len() <= MAX_URL_BYTES && Url::parse(url).is_ok())?;
    Some(FileSource(json!({ "url": url })))
}

/// Splits a path from a platform into segments. Returns `None` for a path with `.` or `..` or empty segments.
pub(crate) fn segments(path: &str) -> Option<Vec<&str>> {
    let segments: Vec<&str> = path.split('/').collect();
    let is_name = |segment: &&str| !matches!(*segment, "" | "." | "..");
    segments.iter().all(is_name).then_some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subdomains_need_a_dot() {
        let is_slacks = |url: &str| is_host_or_subdomain(&Url::parse(url).unwrap(), &["slack.com"]);
        for ours in ["https://slack.com/a", "https://files.slack.com/a", "https://files.slack.com:8443/a"] {
            assert!(is_slacks(ours), "{ours}");
        }
        for other in ["https://notslack.com/", "https://slack.com.evil.example/", "https://evil.example/slack.com"] {
            assert!(!is_slacks(other), "{other}");
        }
    }

    #[test]
    fn path_traversal_is_rejected() {
        assert_eq!(segments("documents/a.pdf"), Some(vec!["documents", "a.pdf"]));
        for other in ["", "/a", "a/", "a//b", "a/../b", "."] {
            assert_eq!(segments(other), None, "{other}");
        }
    }

    #[test]
    fn debug_hides_file_sources() {
        let source = at(&json!("https://tenant.example/a?tempauth=t0ken")).unwrap();
        assert_eq!(format!("{source:?}"), "FileSource(…)");
        assert_eq!((at(&json!("no address")), at(&json!(7))), (None, None));
    }
}
