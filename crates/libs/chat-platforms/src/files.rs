//! Fetching what stands in messages: files, piece by piece, from where the platform has them.
//!
//! Invariants
//! - An address that a message names was steered by others: it is `https`, and never a private one, unless it lies
//!   where the owner said that the API is.
//! - A credential goes to the origin that it was meant for, and to none that this one redirects to.

use std::time::Duration;

use agentd_base::Secret;
use agentd_net::{FetchLimits, FetchRequest, GuardedClient, Opened};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use url::Url;

use crate::message::FileSource;
use crate::outgoing::SendError;

/// Longer addresses name no file.
const MAX_URL: usize = 4_096;

/// A file on its way.
#[derive(Debug)]
pub struct IncomingFile {
    opened: Opened,
}

impl IncomingFile {
    /// How long it is, where the other side says so.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.header(CONTENT_LENGTH.as_str())?.parse().ok()
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// `Later`: the connection failed, was too slow, or ended before the file did.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SendError> {
        Ok(self.opened.chunk().await?)
    }

    pub(crate) fn is_html(&self) -> bool {
        self.header(CONTENT_TYPE.as_str()).is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/html"))
    }

    /// Where it came from.
    pub(crate) fn url(&self) -> &Url {
        &self.opened.url
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.opened.headers.get(name)?.to_str().ok()
    }
}

/// What files are fetched through.
#[derive(Debug)]
pub(crate) struct Files {
    name: &'static str,
    /// Reaches what the owner set.
    owner: GuardedClient,
    /// Reaches what messages name.
    steered: GuardedClient,
    /// Where the owner said that the API is.
    base: Option<Url>,
    pub(crate) limits: FetchLimits,
}

impl Files {
    /// `name`: the platform's, for sentences.
    pub(crate) fn new(name: &'static str, client: &GuardedClient, base: Option<&Url>) -> Self {
        let limits = FetchLimits { redirects: 3, total_time: Duration::from_secs(20), ..FetchLimits::default() };
        Self { name, owner: client.clone(), steered: client.for_steered(), base: base.cloned(), limits }
    }

    /// Whether the address lies where the owner said that the API is.
    pub(crate) fn is_owners(&self, url: &Url) -> bool {
        self.base.as_ref().is_some_and(|base| base.origin() == url.origin())
    }

    /// The address in a source; only `https`, unless it is the owner's.
    pub(crate) fn url(&self, source: &FileSource) -> Result<Url, SendError> {
        let url = source.0["url"].as_str().and_then(|url| Url::parse(url).ok());
        let url = url.filter(|url| url.scheme() == "https" || self.is_owners(url));
        url.ok_or_else(|| SendError::Refused(format!("{} names no https address for the file", self.name)))
    }

    /// As [`Self::url`], for platforms that keep files on hosts of their own: these, and those below them.
    pub(crate) fn url_of(&self, source: &FileSource, hosts: &[&str]) -> Result<Url, SendError> {
        let url = self.url(source)?;
        if self.is_owners(&url) || is_below(&url, hosts) {
            return Ok(url);
        }
        let host = url.host_str().unwrap_or_default();
        Err(SendError::Refused(format!("the file lies on {host}, which is no host of {}", self.name)))
    }

    /// Asks for a file. `authorization`: the scheme and the token, for this address alone.
    ///
    /// # Errors
    /// `Credentials` for 401, `Gone` for what is there no more, `RateLimited`, `Later`, or `Refused`.
    pub(crate) async fn open(
        &self,
        url: Url,
        authorization: Option<(&str, &Secret)>,
    ) -> Result<IncomingFile, SendError> {
        let client = if self.is_owners(&url) { &self.owner } else { &self.steered };
        let mut request = FetchRequest::get(url);
        if let Some((scheme, token)) = authorization {
            let value = HeaderValue::from_str(&format!("{scheme} {}", token.expose()));
            let mut value = value.map_err(|_| {
                let name = self.name;
                SendError::Credentials(format!("the credentials of {name} hold characters that no header takes"))
            })?;
            value.set_sensitive(true);
            request.headers.insert(AUTHORIZATION, value);
        }
        let opened = client.open(&self.steered, request, self.limits).await?;
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
        StatusCode::UNAUTHORIZED => SendError::Credentials(sentence("refuses the credentials for the file")),
        StatusCode::FORBIDDEN => SendError::Refused(sentence("does not hand the file out, or not any more")),
        StatusCode::NOT_FOUND | StatusCode::GONE => SendError::Gone(sentence("has the file no more")),
        StatusCode::TOO_MANY_REQUESTS => {
            SendError::RateLimited { message: sentence("hands out no more files just now"), wait: None }
        }
        _ if status.is_server_error() => SendError::Later(sentence("could not hand the file out")),
        _ => SendError::Refused(sentence("answered something else than the file")),
    })
}

/// Whether the host is one of these or below one.
pub(crate) fn is_below(url: &Url, hosts: &[&str]) -> bool {
    let host = url.host_str().unwrap_or_default();
    hosts.iter().any(|known| host.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// The source of a file that stands at an address.
pub(crate) fn at(url: &Value) -> Option<FileSource> {
    let url = url.as_str().filter(|url| url.len() <= MAX_URL && Url::parse(url).is_ok())?;
    Some(FileSource(json!({ "url": url })))
}

/// The segments of a path that a platform names; `None` for one that leads elsewhere.
pub(crate) fn segments(path: &str) -> Option<Vec<&str>> {
    let segments: Vec<&str> = path.split('/').collect();
    let is_name = |segment: &&str| !matches!(*segment, "" | "." | "..");
    segments.iter().all(is_name).then_some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_below_another_only_behind_a_dot() {
        let is_slacks = |url: &str| is_below(&Url::parse(url).unwrap(), &["slack.com"]);
        for ours in ["https://slack.com/a", "https://files.slack.com/a", "https://files.slack.com:8443/a"] {
            assert!(is_slacks(ours), "{ours}");
        }
        for other in ["https://notslack.com/", "https://slack.com.evil.example/", "https://evil.example/slack.com"] {
            assert!(!is_slacks(other), "{other}");
        }
    }

    #[test]
    fn a_path_leads_nowhere_else() {
        assert_eq!(segments("documents/a.pdf"), Some(vec!["documents", "a.pdf"]));
        for other in ["", "/a", "a/", "a//b", "a/../b", "."] {
            assert_eq!(segments(other), None, "{other}");
        }
    }

    #[test]
    fn what_opens_a_file_is_not_shown() {
        let source = at(&json!("https://tenant.example/a?tempauth=t0ken")).unwrap();
        assert_eq!(format!("{source:?}"), "FileSource(…)");
        assert_eq!((at(&json!("no address")), at(&json!(7))), (None, None));
    }
}
