//! Handlers for cookies, in the format of Playwright's storage states.

use agentd_browser::{Cookie, SameSite};
use agentd_web::{Answer, ErrorBody, Json};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::browser::service::Browser;

/// SameSite policy of a cookie.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
enum SameSiteView {
    Strict,
    #[default]
    Lax,
    None,
}

/// Cookie in the format of Playwright storage states.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BrowserCookie)]
pub(super) struct CookieView {
    /// Name of the cookie, at most 4,096 characters.
    #[schema(max_length = 4_096)]
    name: String,
    /// Value of the cookie, at most 8,192 characters.
    #[schema(max_length = 8_192)]
    value: String,
    /// Host that receives the cookie; a leading dot includes its subdomains.
    #[schema(min_length = 1, max_length = 253, example = "example.com")]
    domain: String,
    /// Path prefix for which the cookie is sent; default `/`.
    #[serde(default = "default_path")]
    #[schema(max_length = 4_096, required = false)]
    path: String,
    /// Expiry in seconds since the Unix epoch; -1 (the default) for a session cookie.
    #[serde(default = "session_expiry")]
    #[schema(minimum = -1.0, maximum = 253_402_300_799.0, required = false)]
    expires: f64,
    /// Whether scripts of the page cannot read the cookie; default false.
    #[serde(default)]
    #[schema(required = false)]
    http_only: bool,
    /// Whether the cookie is sent over HTTPS only; default false.
    #[serde(default)]
    #[schema(required = false)]
    secure: bool,
    /// SameSite policy: `Strict`, `Lax` or `None`; default `Lax`.
    #[serde(default)]
    same_site: Option<SameSiteView>,
    /// Top-level site of a partitioned cookie; absent for other cookies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, max_length = 512)]
    partition_key: Option<String>,
    /// For a partitioned cookie: whether a cross-site ancestor frame exists; default true.
    #[serde(rename = "_crHasCrossSiteAncestor", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool, required = false)]
    has_cross_site_ancestor: Option<bool>,
}

fn default_path() -> String {
    "/".to_owned()
}

fn session_expiry() -> f64 {
    -1.0
}

impl From<Cookie> for CookieView {
    fn from(cookie: Cookie) -> Self {
        let same_site = match cookie.same_site {
            SameSite::Strict => SameSiteView::Strict,
            SameSite::Lax => SameSiteView::Lax,
            SameSite::None => SameSiteView::None,
        };
        Self {
            name: cookie.name,
            value: cookie.value,
            domain: cookie.domain,
            path: cookie.path,
            expires: cookie.expires,
            http_only: cookie.http_only,
            secure: cookie.secure,
            same_site: Some(same_site),
            partition_key: cookie.partition_key,
            has_cross_site_ancestor: cookie.has_cross_site_ancestor,
        }
    }
}

impl From<CookieView> for Cookie {
    fn from(cookie: CookieView) -> Self {
        let same_site = match cookie.same_site.unwrap_or_default() {
            SameSiteView::Strict => SameSite::Strict,
            SameSiteView::Lax => SameSite::Lax,
            SameSiteView::None => SameSite::None,
        };
        Self {
            name: cookie.name,
            value: cookie.value,
            domain: cookie.domain,
            path: cookie.path,
            expires: cookie.expires,
            http_only: cookie.http_only,
            secure: cookie.secure,
            same_site,
            partition_key: cookie.partition_key,
            has_cross_site_ancestor: cookie.has_cross_site_ancestor,
        }
    }
}

/// Cookies of the session.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserCookieList)]
pub(super) struct CookieList {
    /// Cookies of all sites.
    cookies: Vec<CookieView>,
    /// Number of cookies.
    total: usize,
}

impl From<Vec<Cookie>> for CookieList {
    fn from(cookies: Vec<Cookie>) -> Self {
        Self { total: cookies.len(), cookies: cookies.into_iter().map(CookieView::from).collect() }
    }
}

/// Cookies to set.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewBrowserCookies)]
pub(super) struct NewCookies {
    /// Cookies to add or replace, at most 5,000.
    #[schema(max_items = 5_000)]
    cookies: Vec<CookieView>,
}

/// Result of clearing all cookies.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserCookiesCleared)]
pub(super) struct CookiesCleared {
    /// Always true.
    cleared: bool,
}

/// List cookies
///
/// Requires a key with scope `full`.
#[utoipa::path(get, path = "/api/browser/cookies", tag = "browser",
    responses(
        (status = 200, body = CookieList),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`: the key is read-only"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn list_browser_cookies(State(browser): State<Browser>) -> Answer<CookieList> {
    Ok(Json(browser.cookies().await?.into()))
}

/// Set cookies
///
/// Replaces cookies with the same name, domain and path. Sets all or none, and returns all current cookies. Starts the
/// browser if necessary.
#[utoipa::path(post, path = "/api/browser/cookies", tag = "browser", request_body = NewCookies,
    responses(
        (status = 200, body = CookieList),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
        (status = 503, body = ErrorBody, description = "`browser_unavailable`: Chromium not found"),
    ))]
pub(super) async fn set_browser_cookies(
    State(browser): State<Browser>,
    Json(new): Json<NewCookies>,
) -> Answer<CookieList> {
    let cookies: Vec<Cookie> = new.cookies.into_iter().map(Cookie::from).collect();
    Ok(Json(browser.set_cookies(&cookies).await?.into()))
}

/// Clear all cookies
#[utoipa::path(delete, path = "/api/browser/cookies", tag = "browser",
    responses(
        (status = 200, body = CookiesCleared),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn clear_browser_cookies(State(browser): State<Browser>) -> Answer<CookiesCleared> {
    browser.clear_cookies().await?;
    Ok(Json(CookiesCleared { cleared: true }))
}
