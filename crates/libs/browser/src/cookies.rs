//! Cookies of a context, in the format of Playwright storage states.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::BrowserError;
use crate::browser::Context;
use crate::shared::COMMAND_TIMEOUT;

const MAX_COOKIES: usize = 5_000;

/// `SameSite` attribute of a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SameSite {
    Strict,
    #[default]
    Lax,
    None,
}

/// Cookie. Its value is omitted from debug output.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cookie {
    pub name: String,
    pub value: String,
    pub domain: String,
    #[serde(default = "default_path")]
    pub path: String,
    /// Expiry in seconds since the Unix epoch; -1 for a session cookie.
    #[serde(default = "session_expiry")]
    pub expires: f64,
    #[serde(default)]
    pub http_only: bool,
    #[serde(default)]
    pub secure: bool,
    #[serde(default)]
    pub same_site: SameSite,
    /// Top-level site of a partitioned cookie; `None` for an unpartitioned one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<String>,
    /// Whether a cross-site frame lies between the top-level site and the cookie; defaults to true.
    #[serde(rename = "_crHasCrossSiteAncestor", default, skip_serializing_if = "Option::is_none")]
    pub has_cross_site_ancestor: Option<bool>,
}

impl std::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cookie").field("name", &self.name).field("domain", &self.domain).finish_non_exhaustive()
    }
}

fn default_path() -> String {
    "/".to_owned()
}

fn session_expiry() -> f64 {
    -1.0
}

#[derive(Deserialize)]
struct Cookies {
    cookies: Vec<ProtocolCookie>,
}

/// Cookie in the format of the DevTools protocol.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProtocolCookie {
    name: String,
    value: String,
    domain: String,
    path: String,
    expires: f64,
    http_only: bool,
    secure: bool,
    #[serde(default)]
    same_site: SameSite,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition_key: Option<Partition>,
    /// Whether the partition key belongs to an opaque origin; such a cookie cannot be restored.
    #[serde(default, skip_serializing)]
    partition_key_opaque: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Partition {
    top_level_site: String,
    has_cross_site_ancestor: bool,
}

impl From<ProtocolCookie> for Cookie {
    fn from(cookie: ProtocolCookie) -> Self {
        let ProtocolCookie { name, value, domain, path, expires, http_only, secure, same_site, .. } = cookie;
        let (partition_key, has_cross_site_ancestor) =
            cookie.partition_key.map(|partition| (partition.top_level_site, partition.has_cross_site_ancestor)).unzip();
        Self {
            name,
            value,
            domain,
            path,
            expires,
            http_only,
            secure,
            same_site,
            partition_key,
            has_cross_site_ancestor,
        }
    }
}

impl From<Cookie> for ProtocolCookie {
    fn from(cookie: Cookie) -> Self {
        let Cookie { name, value, domain, path, expires, http_only, secure, same_site, .. } = cookie;
        let has_cross_site_ancestor = cookie.has_cross_site_ancestor.unwrap_or(true);
        let partition_key =
            cookie.partition_key.map(|top_level_site| Partition { top_level_site, has_cross_site_ancestor });
        let partition_key_opaque = false;
        Self { name, value, domain, path, expires, http_only, secure, same_site, partition_key, partition_key_opaque }
    }
}

impl Context {
    /// Returns all cookies of the context.
    ///
    /// # Errors
    /// The browser does not respond.
    pub async fn cookies(&self) -> Result<Vec<Cookie>, BrowserError> {
        let parameters = json!({"browserContextId": self.id()});
        let cookies: Cookies =
            self.shared().connection.call(None, "Storage.getCookies", parameters, COMMAND_TIMEOUT).await?;
        Ok(cookies.cookies.into_iter().filter(|cookie| !cookie.partition_key_opaque).map(Cookie::from).collect())
    }

    /// Sets cookies. A cookie with the same name, domain and path is replaced.
    ///
    /// # Errors
    /// [`BrowserError::Invalid`] if the browser rejects a cookie; then none is set.
    pub async fn set_cookies(&self, cookies: &[Cookie]) -> Result<(), BrowserError> {
        if cookies.len() > MAX_COOKIES {
            return Err(BrowserError::Invalid(format!("at most {MAX_COOKIES} cookies may be set at once")));
        }
        let cookies: Vec<ProtocolCookie> = cookies.iter().cloned().map(ProtocolCookie::from).collect();
        let parameters = json!({"browserContextId": self.id(), "cookies": cookies});
        match self.shared().connection.call::<IgnoredAny>(None, "Storage.setCookies", parameters, COMMAND_TIMEOUT).await
        {
            Err(crate::cdp::CdpError::Refused { message, .. }) => {
                Err(BrowserError::Invalid(format!("the browser rejected the cookies: {message}")))
            }
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Deletes all cookies of the context.
    ///
    /// # Errors
    /// The browser does not respond.
    pub async fn clear_cookies(&self) -> Result<(), BrowserError> {
        let parameters = json!({"browserContextId": self.id()});
        let cleared =
            self.shared().connection.call::<IgnoredAny>(None, "Storage.clearCookies", parameters, COMMAND_TIMEOUT);
        Ok(cleared.await.map(|_| ())?)
    }
}
