//! The session of the daemon's own page, which a browser keeps in a cookie and adds to requests by itself. It counts
//! only where that page asked: on no other origin, on no WebSocket of unknown origin, and on no change without a
//! header that pages of other origins cannot send.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use agentd_base::Secret;
use axum::extract::{ConnectInfo, FromRequestParts, Request};
use http::header::{COOKIE, HOST, ORIGIN, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::address::TrustedProxies;
use crate::error::ApiError;

const SESSION_COOKIE: &str = "svc_session";
const CSRF_HEADER: HeaderName = HeaderName::from_static("x-svc-csrf");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Which pages are the daemon's own: those of the host that is asked, and those of the origin that the daemon is
/// said to be reached at, for proxies that send another `Host`.
#[derive(Debug, Clone, Default)]
pub struct OwnPages {
    base_origin: Option<String>,
}

/// What is known of the page that a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestingPage {
    /// It is no page of another origin. True also of what is no page at all.
    pub is_own: bool,
    /// The browser reaches us over https.
    pub is_secure: bool,
}

impl<S: Send + Sync> FromRequestParts<S> for RequestingPage {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let unknown = Self { is_own: true, is_secure: false };
        Ok(parts.extensions.get::<Self>().copied().unwrap_or(unknown))
    }
}

impl OwnPages {
    /// `base_origin` as a browser writes it: `https://agents.example`.
    #[must_use]
    pub fn new(base_origin: Option<String>) -> Self {
        Self { base_origin }
    }

    /// Puts the [`RequestingPage`] into the request's extensions, where it can matter.
    pub(crate) fn record(&self, proxies: &TrustedProxies, request: &mut Request) {
        let headers = request.headers();
        let matters =
            self.is_https() || [&COOKIE, &ORIGIN, &X_FORWARDED_PROTO].iter().any(|name| headers.contains_key(*name));
        if !matters {
            return;
        }
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        let host = text(headers, &HOST).or_else(|| request.uri().authority().map(http::uri::Authority::as_str));
        let page = self.page_of(headers, host.unwrap_or_default(), peer.is_some_and(|peer| is_behind(proxies, peer)));
        request.extensions_mut().insert(page);
    }

    fn page_of(&self, headers: &HeaderMap, host: &str, is_behind_proxy: bool) -> RequestingPage {
        let says_https = is_behind_proxy && text(headers, &X_FORWARDED_PROTO) == Some("https");
        let is_reached_by_https = self.is_https() && self.base_origin.as_deref().is_some_and(|base| is_of(base, host));
        let is_secure = says_https || is_reached_by_https;
        let site = headers.get(&SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        let is_own_site = matches!(site, None | Some(b"same-origin" | b"none"));
        // An Origin that is no text is foreign, not absent.
        let Some(origin) = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default()) else {
            return RequestingPage { is_own: is_own_site, is_secure };
        };
        let is_base = self.base_origin.as_deref().is_some_and(|base| base.eq_ignore_ascii_case(origin));
        let is_https = origin.starts_with("https://");
        let is_own = is_own_site && (is_base || is_of(origin, host)) && (is_https || !is_secure);
        RequestingPage { is_own, is_secure: is_secure || is_own && is_https }
    }

    fn is_https(&self) -> bool {
        self.base_origin.as_deref().is_some_and(|base| base.starts_with("https://"))
    }
}

fn is_behind(proxies: &TrustedProxies, peer: IpAddr) -> bool {
    proxies.contains(peer.to_canonical())
}

/// Whether a page of this origin was loaded from this host.
fn is_of(origin: &str, host: &str) -> bool {
    let (authority, port) = match origin.split_once("://") {
        Some(("http", authority)) => (authority, ":80"),
        Some(("https", authority)) => (authority, ":443"),
        _ => return false,
    };
    let plain = |name: &str| name.strip_suffix(port).unwrap_or(name).to_ascii_lowercase();
    !host.is_empty() && plain(authority) == plain(host)
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The session in a request's cookie, if it counts.
///
/// # Errors
/// 403 where it would change something and the page's own header is missing.
pub(crate) fn session_cookie(request: &Request) -> Result<Option<Secret>, ApiError> {
    let Some(session) = only_session(request.headers()) else { return Ok(None) };
    let page = request.extensions().get::<RequestingPage>();
    let is_socket = request.headers().contains_key(UPGRADE);
    // A browser names the origin of every WebSocket, and asks nobody before it opens one.
    if !page.is_some_and(|page| page.is_own) || is_socket && !request.headers().contains_key(ORIGIN) {
        return Ok(None);
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if changes && request.headers().get(&CSRF_HEADER).is_none_or(|value| value != "1") {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "csrf_header_missing",
            "A request that changes something with the session cookie needs the header `X-Svc-Csrf: 1`",
        ));
    }
    Ok(Some(session))
}

/// The session in a cookie, whether or not it counts.
///
/// A second cookie of that name was put there by a neighbour of our host name: which one is ours cannot be told.
#[must_use]
pub fn only_session(headers: &HeaderMap) -> Option<Secret> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut sessions = pairs.filter(|(name, value)| *name == SESSION_COOKIE && !value.is_empty());
    let (_, session) = sessions.next()?;
    sessions.next().is_none().then(|| Secret::new(session.to_owned()))
}

/// The value of `Set-Cookie` that hands a session to the daemon's own page.
#[must_use]
pub fn keep_session(token: &Secret, seconds: u64, is_secure: bool) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let token = token.expose();
    let cookie = format!("{SESSION_COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let mut cookie = HeaderValue::try_from(cookie).unwrap_or_else(|_| forget_session());
    cookie.set_sensitive(true);
    cookie
}

/// The value of `Set-Cookie` that takes it back.
#[must_use]
pub fn forget_session() -> HeaderValue {
    HeaderValue::from_static("svc_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn only_pages_of_the_host_and_of_the_base_url_are_our_own() {
        let pages = OwnPages::new(Some("https://agents.example".to_owned()));
        let is_own = |host: &str, pairs: &[_]| pages.page_of(&headers(pairs), host, false).is_own;
        assert!(is_own("127.0.0.1:7878", &[]));
        assert!(is_own("127.0.0.1:7878", &[("origin", "http://127.0.0.1:7878")]));
        assert!(is_own("127.0.0.1:7878", &[("origin", "https://agents.example")]));
        assert!(is_own("LOCALHOST:80", &[("origin", "http://localhost"), ("sec-fetch-site", "same-origin")]));
        assert!(is_own("agents.example", &[("origin", "https://agents.example"), ("sec-fetch-site", "none")]));
        for (host, origin) in [
            ("127.0.0.1:7878", "http://127.0.0.1:8080"),
            ("127.0.0.1:7878", "http://localhost:7878"),
            ("localhost", "https://localhost:80"),
            ("agents.example", "http://agents.example"),
            ("agents.example", "https://evil.agents.example"),
            ("127.0.0.1:7878", "null"),
            ("", "http://"),
        ] {
            assert!(!pages.page_of(&headers_of(origin), host, false).is_own, "{origin} at {host}");
        }
        for site in ["cross-site", "same-site", "", "nonsense"] {
            assert!(!is_own("127.0.0.1:7878", &[("sec-fetch-site", site)]), "{site}");
        }
    }

    fn headers_of(origin: &str) -> HeaderMap {
        HeaderMap::from_iter([(ORIGIN, HeaderValue::from_str(origin).unwrap())])
    }

    #[test]
    fn https_is_known_from_the_page_the_base_url_or_a_trusted_proxy() {
        let is_secure = |base: Option<&str>, host: &str, trusted: bool, pairs: &[_]| {
            OwnPages::new(base.map(str::to_owned)).page_of(&headers(pairs), host, trusted).is_secure
        };
        assert!(is_secure(None, "agents.example", false, &[("origin", "https://agents.example")]));
        assert!(is_secure(Some("https://agents.example"), "agents.example:443", false, &[]));
        assert!(is_secure(None, "10.0.0.1", true, &[("x-forwarded-proto", "https")]));
        assert!(!is_secure(None, "10.0.0.1", false, &[("x-forwarded-proto", "https")]));
        assert!(!is_secure(Some("https://agents.example"), "127.0.0.1:7878", false, &[]));
        assert!(!is_secure(None, "agents.example", false, &[("origin", "https://evil.example")]));
    }

    #[test]
    fn a_second_cookie_of_that_name_makes_both_worthless() {
        let found =
            |cookie: &'static str| only_session(&headers(&[("cookie", cookie)])).map(|found| found.expose().to_owned());
        assert_eq!(found("theme=dark; svc_session=sess_1;x=y").as_deref(), Some("sess_1"));
        assert_eq!(found("svc_session=sess_1; svc_session=sess_2"), None);
        assert_eq!(found("svc_session="), None);
        assert_eq!(found("xsvc_session=sess_1"), None);
    }
}
