//! Complete exchanges with untrusted addresses: redirects are checked individually, all resources are bounded, and
//! credentials are sent only to their origin.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use url::Url;

use crate::{GuardedClient, NetError, headers};

/// Limits of a fetch.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// Number of redirects that are followed; one more is an error.
    pub redirects: usize,
    /// Maximum size of the decoded body; the rest is dropped.
    pub body_bytes: usize,
    /// Time limit of the whole exchange, including redirects and body.
    pub total_timeout: Duration,
    /// Maximum time between two chunks of the response.
    pub idle_timeout: Duration,
}

impl Default for FetchLimits {
    /// Returns the defaults: 5 redirects, 10 MiB, 30 s, 10 s.
    fn default() -> Self {
        Self {
            redirects: 5,
            body_bytes: 10 << 20,
            total_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(10),
        }
    }
}

/// Request to fetch.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    pub method: Method,
    pub url: Url,
    /// Headers for the URL's own origin. Only `Accept` and `Accept-Language` follow a redirect to another origin, since
    /// any other may be a credential.
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl FetchRequest {
    #[must_use]
    pub fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: Bytes::new() }
    }
}

/// Response of any status after all redirects, whose body is read in chunks.
#[derive(Debug)]
pub struct OpenResponse {
    /// URL of the final response.
    pub url: Url,
    pub status: StatusCode,
    pub headers: HeaderMap,
    response: reqwest::Response,
    idle_timeout: Duration,
}

impl OpenResponse {
    /// Returns the next chunk of the body; `None` at its end.
    ///
    /// # Errors
    /// Connection errors, including a body shorter than its announced length.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, NetError> {
        match tokio::time::timeout(self.idle_timeout, self.response.chunk()).await {
            Ok(piece) => piece.map_err(|error| NetError::from_reqwest(&host_of(&self.url), error)),
            Err(_) => Err(NetError::Timeout { host: host_of(&self.url) }),
        }
    }
}

/// Response of any status after all redirects.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// URL of the final response.
    pub url: Url,
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Decoded body.
    pub body: Bytes,
    /// Whether the body exceeded [`FetchLimits::body_bytes`].
    pub is_truncated: bool,
}

impl GuardedClient {
    /// Sends `request` and follows redirects, each of which is checked like a separate request. A redirect from `https`
    /// to `http` is refused, and so is one that would send a body to another origin. Dropping the future cancels the
    /// exchange.
    ///
    /// # Errors
    /// A refusal of the address or of a redirect target, a connection error, [`NetError::TooManyRedirects`],
    /// [`NetError::Redirect`], [`NetError::Encoding`], or [`NetError::Request`] for headers that callers may not set.
    pub async fn fetch(&self, request: FetchRequest, limits: FetchLimits) -> Result<Fetched, NetError> {
        let host = host_of(&request.url);
        let fetched = async { read(self.follow(self, request, "gzip", limits).await?, limits).await };
        match tokio::time::timeout(limits.total_timeout, fetched).await {
            Ok(fetched) => fetched,
            Err(_) => Err(NetError::Timeout { host }),
        }
    }

    /// Fetches like [`Self::fetch`], but returns a body that is read in chunks: `body_bytes` of `limits` does not
    /// apply, and `total_timeout` ends with the response head. From the first redirect to another origin on, requests use
    /// the client `elsewhere`, so that a server at an address entered by the owner cannot redirect to other private
    /// addresses.
    ///
    /// # Errors
    /// Same as [`Self::fetch`]; `Encoding` for any encoding, since none was requested.
    pub async fn open(
        &self,
        elsewhere: &Self,
        request: FetchRequest,
        limits: FetchLimits,
    ) -> Result<OpenResponse, NetError> {
        let host = host_of(&request.url);
        match tokio::time::timeout(limits.total_timeout, self.follow(elsewhere, request, "identity", limits)).await {
            Ok(opened) => {
                let opened = opened?;
                match encoding(&opened.headers) {
                    Some(encoding) => Err(NetError::Encoding { host, encoding }),
                    None => Ok(opened),
                }
            }
            Err(_) => Err(NetError::Timeout { host }),
        }
    }

    async fn follow(
        &self,
        elsewhere: &Self,
        mut request: FetchRequest,
        accepted: &'static str,
        limits: FetchLimits,
    ) -> Result<OpenResponse, NetError> {
        if let Some(problem) = request.headers.keys().find_map(headers::problem_with) {
            return Err(NetError::Request { problem });
        }
        let (first, mut client) = (request.url.clone(), self);
        for _ in 0..=limits.redirects {
            let response = client.send_once(&request, accepted, limits).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            let Some(next) = redirect_target(&request.url, status, &headers)? else {
                return Ok(OpenResponse {
                    url: request.url,
                    status,
                    headers,
                    response,
                    idle_timeout: limits.idle_timeout,
                });
            };
            if next.origin() != first.origin() {
                client = elsewhere;
            }
            request = redirected(request, status, next)?;
        }
        Err(NetError::TooManyRedirects { host: host_of(&first), limit: limits.redirects })
    }

    async fn send_once(
        &self,
        request: &FetchRequest,
        accepted: &'static str,
        limits: FetchLimits,
    ) -> Result<reqwest::Response, NetError> {
        let mut sent = request.headers.clone();
        sent.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        let mut outgoing = self.request(request.method.clone(), request.url.clone())?.headers(sent);
        if !request.body.is_empty() {
            outgoing = outgoing.body(request.body.clone());
        }
        match tokio::time::timeout(limits.idle_timeout, outgoing.send()).await {
            Ok(response) => response,
            Err(_) => Err(NetError::Timeout { host: host_of(&request.url) }),
        }
    }
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// Returns the target of a redirect, if the response is a redirect with a location.
fn redirect_target(from: &Url, status: StatusCode, headers: &HeaderMap) -> Result<Option<Url>, NetError> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = headers.get(LOCATION) else { return Ok(None) };
    let invalid_location = || NetError::Redirect { host: host_of(from), problem: "to an invalid URL" };
    // Browsers decode the bytes as UTF-8.
    let location = std::str::from_utf8(location.as_bytes()).map_err(|_| invalid_location())?;
    let mut next = from.join(location).map_err(|_| invalid_location())?;
    // A redirect may choose a location, but not credentials. (Other schemes are refused with the address.)
    let is_http = matches!(next.scheme(), "http" | "https");
    if is_http && next.origin() != from.origin() && (next.set_username("").is_err() || next.set_password(None).is_err())
    {
        return Err(invalid_location());
    }
    Ok(Some(next))
}

/// Builds the request to the redirect target, without the headers and body that must not follow.
fn redirected(mut request: FetchRequest, status: StatusCode, next: Url) -> Result<FetchRequest, NetError> {
    let refuse = |problem| NetError::Redirect { host: host_of(&request.url), problem };
    if request.url.scheme() == "https" && next.scheme() == "http" {
        return Err(refuse("from https to http, which does not protect the response from changes"));
    }
    let becomes_get = match status.as_u16() {
        303 => request.method != Method::HEAD,
        301 | 302 => request.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        request.method = Method::GET;
        request.body = Bytes::new();
        request.headers = filter_headers(&request.headers, |name| !name.starts_with("content-"));
    }
    if next.origin() != request.url.origin() {
        if !request.body.is_empty() {
            return Err(NetError::Redirect {
                host: host_of(&request.url),
                problem: "to another origin, which must not receive the body of the request",
            });
        }
        request.headers = filter_headers(&request.headers, |name| name == ACCEPT || name == ACCEPT_LANGUAGE);
    }
    request.url = next;
    Ok(request)
}

fn filter_headers(headers: &HeaderMap, keep: impl Fn(&str) -> bool) -> HeaderMap {
    headers.iter().filter(|(name, _)| keep(name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect()
}

async fn read(mut opened: OpenResponse, limits: FetchLimits) -> Result<Fetched, NetError> {
    let host = host_of(&opened.url);
    let mut body = match encoding(&opened.headers) {
        None => Body::Plain(BoundedBuffer::new(limits.body_bytes)),
        Some(name) if name == "gzip" || name == "x-gzip" => {
            Body::Gzip(Box::new(MultiGzDecoder::new(BoundedBuffer::new(limits.body_bytes))))
        }
        Some(encoding) => return Err(NetError::Encoding { host, encoding }),
    };
    let mut has_body = false;
    while let Some(piece) = opened.chunk().await? {
        has_body |= !piece.is_empty();
        if !body.take(&piece).map_err(|source| NetError::Transport { host: host.clone(), source: Arc::new(source) })? {
            break;
        }
    }
    if !has_body {
        // A response to HEAD names the encoding of a body that it does not have.
        body = Body::Plain(BoundedBuffer::new(0));
    }
    let bounded = body.finish().map_err(|source| NetError::Transport { host, source: Arc::new(source) })?;
    let OpenResponse { url, status, mut headers, .. } = opened;
    headers.remove(CONTENT_ENCODING);
    Ok(Fetched { url, status, headers, body: bounded.bytes.into(), is_truncated: bounded.is_full })
}

/// Returns the content coding, unless it is identity.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(CONTENT_ENCODING).iter();
    let first = String::from_utf8_lossy(all.next()?.as_bytes()).trim().to_ascii_lowercase();
    let is_only = all.next().is_none();
    match first.as_str() {
        "" | "identity" if is_only => None,
        _ if is_only => Some(first.chars().take(40).collect()),
        _ => Some("multiple encodings".to_owned()),
    }
}

/// Writer that accepts up to `limit` bytes, then fails to stop the decoding.
struct BoundedBuffer {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl BoundedBuffer {
    fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, is_full: false }
    }
}

impl Write for BoundedBuffer {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        let capacity = self.limit - self.bytes.len();
        self.bytes.extend_from_slice(&piece[..piece.len().min(capacity)]);
        if piece.len() > capacity {
            self.is_full = true;
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

enum Body {
    Plain(BoundedBuffer),
    Gzip(Box<MultiGzDecoder<BoundedBuffer>>),
}

impl Body {
    /// Writes a chunk. Returns whether there is capacity for more.
    fn take(&mut self, piece: &[u8]) -> std::io::Result<bool> {
        let (taken, bounded) = match self {
            Self::Plain(bounded) => (bounded.write_all(piece), &*bounded),
            Self::Gzip(decoder) => (decoder.write_all(piece), decoder.get_ref()),
        };
        match taken {
            Err(_) if bounded.is_full => Ok(false),
            Err(error) => Err(error),
            Ok(()) => Ok(true),
        }
    }

    fn finish(self) -> std::io::Result<BoundedBuffer> {
        match self {
            Self::Plain(bounded) => Ok(bounded),
            Self::Gzip(mut decoder) => {
                // A truncated body ends in the middle of its encoding.
                if !decoder.get_ref().is_full {
                    match decoder.try_finish() {
                        Err(error) if !decoder.get_ref().is_full => return Err(error),
                        _ => {}
                    }
                }
                let bounded = decoder.get_mut();
                Ok(BoundedBuffer {
                    bytes: std::mem::take(&mut bounded.bytes),
                    limit: bounded.limit,
                    is_full: bounded.is_full,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(from: &str, status: u16, location: &str) -> Result<FetchRequest, NetError> {
        let mut request = FetchRequest::get(Url::parse(from).unwrap());
        request.headers.insert("x-api-key", HeaderValue::from_static("secret"));
        let status = StatusCode::from_u16(status).unwrap();
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::try_from(location).unwrap())]);
        let next = redirect_target(&request.url, status, &headers)?.unwrap();
        redirected(request, status, next)
    }

    #[test]
    fn https_redirects_only_to_https() {
        assert!(matches!(follow("https://a.example/", 302, "http://a.example/"), Err(NetError::Redirect { .. })));
        assert!(follow("http://a.example/", 302, "https://a.example/").unwrap().headers.is_empty(), "another origin");
        assert_eq!(follow("https://a.example/x/y", 302, "../z").unwrap().url.as_str(), "https://a.example/z");
        assert_eq!(follow("https://a.example/", 302, "//b.example/").unwrap().url.as_str(), "https://b.example/");
        assert!(follow("https://a.example/", 302, "//a.example:444/").unwrap().headers.is_empty(), "another port");
        assert_eq!(follow("https://a.example/", 307, "https://a.example:443/x").unwrap().headers.len(), 1);
    }
}
