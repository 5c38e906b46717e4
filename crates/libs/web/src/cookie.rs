//! Session of the daemon's own web page: a cookie that the browser sends automatically, and a page secret that only the
//! page's origin stores and sends in a header.
//!
//! Cookies ignore ports: every server under the daemon's host name receives the session cookie and can set another one.
//! The cookie alone is therefore not a credential, and a foreign one next to the right one is harmless.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use agentd_base::Secret;
use axum::extract::{ConnectInfo, FromRequestParts, Request};
use http::header::{COOKIE, HOST, ORIGIN, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

use crate::address::TrustedProxies;
use crate::error::ApiError;

const SESSION_COOKIE: &str = "svc_session";
const CSRF_HEADER: HeaderName = HeaderName::from_static("x-svc-csrf");
const PAGE_SECRET_HEADER: HeaderName = HeaderName::from_static("x-svc-page");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Maximum number of session cookies of one request that are compared with the session of its page secret.
const MAX_SESSION_COOKIES: usize = 4;
/// Maximum number of `Set-Cookie` headers that delete session cookies. Proxies bound the headers of a response,
/// commonly to 4 KiB.
const MAX_DELETIONS: usize = 40;

/// Credential of a page session, as presented by a request.
#[derive(Debug, Clone)]
pub struct PageCredential {
    /// Values of the session cookies, at most four. One of them belongs to the page.
    pub cookies: Vec<Secret>,
    /// Page secret of the header `X-Svc-Page`.
    pub secret: Option<Secret>,
}

/// Recognizes the daemon's own pages: those of the requested host and those of the configured base URL, for proxies
/// that send another `Host`.
#[derive(Debug, Clone, Default)]
pub struct OwnPages {
    base_origin: Option<String>,
}

/// Origin of the page that sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageOrigin {
    /// Whether the request is not from a page of another origin. Also true for clients that are not browsers.
    pub is_own: bool,
    /// Whether the browser reaches the daemon over https.
    pub is_secure: bool,
}

impl Default for PageOrigin {
    fn default() -> Self {
        Self { is_own: true, is_secure: false }
    }
}

/// Page that sent a request, and the scope of its cookies.
#[derive(Debug, Clone)]
pub struct RequestingPage {
    pub origin: PageOrigin,
    pub cookies: CookieScope,
}

impl<S: Send + Sync> FromRequestParts<S> for RequestingPage {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let origin = parts.extensions.get::<PageOrigin>().copied().unwrap_or_default();
        Ok(Self { origin, cookies: CookieScope::new(&parts.uri, &parts.headers) })
    }
}

impl OwnPages {
    /// Creates the recognizer; `base_origin` has the form that browsers send: `https://agents.example`.
    #[must_use]
    pub fn new(base_origin: Option<String>) -> Self {
        Self { base_origin }
    }

    /// Inserts the [`PageOrigin`] into the request's extensions if it may differ from the default.
    pub(crate) fn record(&self, proxies: &TrustedProxies, request: &mut Request) {
        let headers = request.headers();
        let matters =
            self.is_https() || [&COOKIE, &ORIGIN, &X_FORWARDED_PROTO].iter().any(|name| headers.contains_key(*name));
        if !matters {
            return;
        }
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        let host = host_of(request.uri(), headers).unwrap_or_default();
        let page = self.page_of(headers, host, peer.is_some_and(|peer| is_behind(proxies, peer)));
        request.extensions_mut().insert(page);
    }

    fn page_of(&self, headers: &HeaderMap, host: &str, is_behind_proxy: bool) -> PageOrigin {
        let is_forwarded_https = is_behind_proxy && text(headers, &X_FORWARDED_PROTO) == Some("https");
        let is_reached_by_https = self.is_https() && self.base_origin.as_deref().is_some_and(|base| is_of(base, host));
        let is_secure = is_forwarded_https || is_reached_by_https;
        let site = headers.get(&SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        let is_own_site = matches!(site, None | Some(b"same-origin"));
        let mut origins = headers.get_all(ORIGIN).iter();
        // An Origin that is not text, or several of them, count as foreign, not absent.
        let origin = match (origins.next(), origins.next()) {
            (None, _) => return PageOrigin { is_own: is_own_site, is_secure },
            (Some(origin), None) => origin.to_str().unwrap_or_default(),
            (Some(_), Some(_)) => "",
        };
        let is_base = self.base_origin.as_deref().is_some_and(|base| base.eq_ignore_ascii_case(origin));
        let is_https = origin.starts_with("https://");
        let is_own = is_own_site && (is_base || is_of(origin, host)) && (is_https || !is_secure);
        PageOrigin { is_own, is_secure: is_secure || is_own && is_https }
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

/// Returns the authority that the request was sent to.
fn host_of<'r>(uri: &'r Uri, headers: &'r HeaderMap) -> Option<&'r str> {
    text(headers, &HOST).or_else(|| uri.authority().map(http::uri::Authority::as_str))
}

/// Reads the page credential of a request. Ignores cookies of requests caused by other origins.
///
/// # Errors
/// 403 if the request is not read-only and lacks the CSRF header.
pub(crate) fn page_credential(request: &Request) -> Result<Option<PageCredential>, ApiError> {
    let headers = request.headers();
    let cookies = session_cookies(headers);
    if cookies.is_empty() {
        return Ok(None);
    }
    let page = request.extensions().get::<PageOrigin>();
    let is_socket = headers.contains_key(UPGRADE);
    // A browser opens a WebSocket to another origin without a preflight, but always sends its Origin.
    if !page.is_some_and(|page| page.is_own) || is_socket && !headers.contains_key(ORIGIN) {
        return Ok(None);
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if changes && headers.get(&CSRF_HEADER).is_none_or(|value| value != "1") {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "csrf_header_missing",
            "Requests with a session cookie that are not read-only require the header `X-Svc-Csrf: 1`",
        ));
    }
    let secret = text(headers, &PAGE_SECRET_HEADER).map(|secret| Secret::new(secret.to_owned()));
    Ok(Some(PageCredential { cookies, secret }))
}

/// Returns the values of the session cookies, in the order sent by the browser.
///
/// A browser sends several if other servers under the daemon's host name set some, for example for a longer path.
#[must_use]
pub fn session_cookies(headers: &HeaderMap) -> Vec<Secret> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let sessions = pairs.filter(|(name, value)| *name == SESSION_COOKIE && !value.is_empty());
    sessions.take(MAX_SESSION_COOKIES).map(|(_, value)| Secret::new(value.to_owned())).collect()
}

/// Host and path of a request: the scope of its session cookies in the browser's cookie store.
#[derive(Debug, Clone)]
pub struct CookieScope {
    path: String,
    host: String,
}

impl<S: Send + Sync> FromRequestParts<S> for CookieScope {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::new(&parts.uri, &parts.headers))
    }
}

impl CookieScope {
    pub(crate) fn new(uri: &Uri, headers: &HeaderMap) -> Self {
        let authority = host_of(uri, headers).unwrap_or_default();
        let host = authority.rsplit_once(':').map_or(authority, |(name, _)| name).to_ascii_lowercase();
        Self { path: uri.path().to_owned(), host }
    }

    /// Returns `Set-Cookie` values that store a page session and delete every other session cookie of this scope.
    #[must_use]
    pub fn keep_session(&self, token: &Secret, seconds: u64, is_secure: bool) -> Vec<HeaderValue> {
        let secure = if is_secure { "; Secure" } else { "" };
        let token = token.expose();
        let cookie = format!("{SESSION_COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        let mut cookies = self.delete_sessions();
        if let Ok(mut cookie) = HeaderValue::try_from(cookie) {
            cookie.set_sensitive(true);
            cookies.push(cookie);
        }
        cookies
    }

    /// Returns `Set-Cookie` values that delete the session cookies of this scope, including those set by another server
    /// under the daemon's host name: one for each path and domain whose cookies a browser sends with the request.
    ///
    /// `Clear-Site-Data: "cookies"` is not a substitute. Browsers ignore it over plain http, and it deletes the cookies
    /// of every other service under the registrable domain.
    #[must_use]
    pub fn delete_sessions(&self) -> Vec<HeaderValue> {
        let scopes = self.paths().flat_map(|path| {
            let domains = self.domains().map(move |domain| format!("; Path={path}; Domain={domain}"));
            std::iter::once(format!("; Path={path}")).chain(domains)
        });
        let deletions = scopes.take(MAX_DELETIONS).map(|scope| format!("{SESSION_COOKIE}={scope}; Max-Age=0"));
        deletions.filter_map(|deletion| HeaderValue::try_from(deletion).ok()).collect()
    }

    /// Returns every cookie path that matches the request path (RFC 6265, section 5.1.4), shortest first.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let slashes = self.path.char_indices().filter(|(_, character)| *character == '/').map(|(at, _)| at);
        let prefixes = slashes.flat_map(|at| [&self.path[..at], &self.path[..=at]]);
        // A `;` ends the attribute, so no cookie has such a path.
        let is_settable = |path: &&str| !path.is_empty() && !path.contains(';');
        let whole = (!self.path.ends_with('/')).then_some(self.path.as_str());
        prefixes.chain(whole).filter(is_settable)
    }

    /// Returns the host name and its parent domains, for which any server under the host name can set cookies. Browsers
    /// ignore public suffixes among them.
    fn domains(&self) -> impl Iterator<Item = &str> {
        let is_name = self.host.parse::<IpAddr>().is_err()
            && self.host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        let dots = self.host.match_indices('.').map(|(at, _)| &self.host[at + 1..]);
        let names = std::iter::once(self.host.as_str()).chain(dots).filter(move |name| is_name && name.contains('.'));
        names.filter(|name| !name.ends_with('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn only_pages_of_the_host_and_of_the_base_url_are_own() {
        let pages = OwnPages::new(Some("https://agents.example".to_owned()));
        let is_own = |host: &str, pairs: &[_]| pages.page_of(&headers(pairs), host, false).is_own;
        assert!(is_own("127.0.0.1:7878", &[]));
        assert!(is_own("127.0.0.1:7878", &[("origin", "http://127.0.0.1:7878")]));
        assert!(is_own("127.0.0.1:7878", &[("origin", "https://agents.example")]));
        assert!(is_own("LOCALHOST:80", &[("origin", "http://localhost"), ("sec-fetch-site", "same-origin")]));
        assert!(is_own("agents.example", &[("origin", "https://agents.example"), ("sec-fetch-site", "same-origin")]));
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
        for origins in [["http://127.0.0.1:7878", "http://evil.example"], ["http://127.0.0.1:7878"; 2]] {
            let several = origins.map(|origin| (ORIGIN, HeaderValue::from_static(origin)));
            let several = several.into_iter().fold(HeaderMap::new(), |mut headers, (name, origin)| {
                headers.append(name, origin);
                headers
            });
            assert!(!pages.page_of(&several, "127.0.0.1:7878", false).is_own, "{origins:?}");
        }
        for site in ["none", "cross-site", "same-site", "", "nonsense"] {
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
    fn session_cookies_are_read_in_order_and_bounded() {
        let found = |cookie: &'static str| {
            let values = session_cookies(&headers(&[("cookie", cookie)]));
            values.iter().map(|value| value.expose().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("theme=dark; svc_session=sess_1;x=y"), ["sess_1"]);
        assert_eq!(found("svc_session=a; svc_session=b"), ["a", "b"]);
        assert_eq!(found("svc_session=a; svc_session=b; svc_session=c; svc_session=d; svc_session=e").len(), 4);
        assert!(found("svc_session=").is_empty() && found("xsvc_session=sess_1").is_empty());
    }

    fn deletions(path: &str, host: &'static str) -> Vec<String> {
        let scope = CookieScope::new(&path.parse().unwrap(), &headers(&[("host", host)]));
        scope.delete_sessions().iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn session_cookies_of_every_matching_path_are_deleted() {
        let paths = |path: &str| -> Vec<String> {
            let deletions = deletions(path, "127.0.0.1:7878");
            let path_of = |deletion: &String| {
                let scope = deletion.strip_prefix("svc_session=; Path=")?.strip_suffix("; Max-Age=0")?;
                Some(scope.to_owned())
            };
            deletions.iter().map(|deletion| path_of(deletion).expect("a deletion of a host cookie")).collect()
        };
        assert_eq!(paths("/"), ["/"]);
        assert_eq!(paths("/api/auth/login?x=/y"), ["/", "/api", "/api/", "/api/auth", "/api/auth/", "/api/auth/login"]);
        assert_eq!(paths("/api/"), ["/", "/api", "/api/"]);
        assert_eq!(paths("/api/a;Domain=x/b"), ["/", "/api", "/api/"]);
    }

    #[test]
    fn session_cookies_of_parent_domains_are_deleted_for_host_names_alone() {
        let deletions_for = |host| deletions("/", host);
        assert_eq!(
            deletions_for("Agents.example.org:8443"),
            [
                "svc_session=; Path=/; Max-Age=0",
                "svc_session=; Path=/; Domain=agents.example.org; Max-Age=0",
                "svc_session=; Path=/; Domain=example.org; Max-Age=0",
            ]
        );
        for host in ["127.0.0.1:7878", "[::1]:7878", "localhost:7878", "nas", ""] {
            assert_eq!(deletions_for(host), ["svc_session=; Path=/; Max-Age=0"], "{host}");
        }
    }

    #[test]
    fn deletions_are_bounded_and_the_new_session_comes_last() {
        let deep = format!("/{}", "a/".repeat(500));
        assert_eq!(deletions(&deep, "agents.example.org").len(), MAX_DELETIONS);
        let scope = CookieScope::new(&"/api".parse().unwrap(), &headers(&[("host", "localhost")]));
        let kept = scope.keep_session(&Secret::new("sess_1".to_owned()), 60, true);
        let last = kept.last().unwrap();
        assert_eq!(last.to_str().unwrap(), "svc_session=sess_1; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure");
        assert!(last.is_sensitive() && kept.len() == 3, "{kept:?}");
    }
}
