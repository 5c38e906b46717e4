//! Cookies of a context, in the form of Playwright's storage states.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::BrowserError;
use crate::browser::Context;
use crate::shared::QUICK;

const MAX_COOKIES: usize = 5_000;

/// How a cookie goes along with requests from other sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SameSite {
    Strict,
    #[default]
    Lax,
    None,
}

/// One cookie. Its value is not printed.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cookie {
    pub name: String,
    pub value: String,
    pub domain: String,
    #[serde(default = "root")]
    pub path: String,
    /// Seconds since 1970; -1 for one that ends with the context.
    #[serde(default = "session")]
    pub expires: f64,
    #[serde(default)]
    pub http_only: bool,
    #[serde(default)]
    pub secure: bool,
    #[serde(default)]
    pub same_site: SameSite,
    /// The site in whose pages alone it is sent; none for one that knows no such bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<String>,
    /// Whether there is another site between the two; where nothing is said, there is.
    #[serde(rename = "_crHasCrossSiteAncestor", default, skip_serializing_if = "Option::is_none")]
    pub has_cross_site_ancestor: Option<bool>,
}

impl std::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cookie").field("name", &self.name).field("domain", &self.domain).finish_non_exhaustive()
    }
}

fn root() -> String {
    "/".to_owned()
}

fn session() -> f64 {
    -1.0
}

#[derive(Deserialize)]
struct Cookies {
    cookies: Vec<Held>,
}

/// A cookie as Chromium has it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Held {
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
    /// Of a page without an address of its own; nobody can be sent it again.
    #[serde(default, skip_serializing)]
    partition_key_opaque: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Partition {
    top_level_site: String,
    has_cross_site_ancestor: bool,
}

impl From<Held> for Cookie {
    fn from(held: Held) -> Self {
        let Held { name, value, domain, path, expires, http_only, secure, same_site, .. } = held;
        let (partition_key, has_cross_site_ancestor) =
            held.partition_key.map(|partition| (partition.top_level_site, partition.has_cross_site_ancestor)).unzip();
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

impl From<Cookie> for Held {
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
    /// All of its cookies.
    ///
    /// # Errors
    /// When the browser does not answer.
    pub async fn cookies(&self) -> Result<Vec<Cookie>, BrowserError> {
        let parameters = json!({"browserContextId": self.id()});
        let cookies: Cookies = self.shared().connection.call(None, "Storage.getCookies", parameters, QUICK).await?;
        Ok(cookies.cookies.into_iter().filter(|held| !held.partition_key_opaque).map(Cookie::from).collect())
    }

    /// Sets cookies; one of the same name, domain and path is replaced.
    ///
    /// # Errors
    /// [`BrowserError::Invalid`] for a cookie that the browser does not take; then none is set.
    pub async fn set_cookies(&self, cookies: &[Cookie]) -> Result<(), BrowserError> {
        if cookies.len() > MAX_COOKIES {
            return Err(BrowserError::Invalid(format!("more than {MAX_COOKIES} cookies at once")));
        }
        let cookies: Vec<Held> = cookies.iter().cloned().map(Held::from).collect();
        let parameters = json!({"browserContextId": self.id(), "cookies": cookies});
        match self.shared().connection.call::<IgnoredAny>(None, "Storage.setCookies", parameters, QUICK).await {
            Err(crate::cdp::CdpError::Refused { message, .. }) => {
                Err(BrowserError::Invalid(format!("the browser does not take these cookies: {message}")))
            }
            other => Ok(other.map(|_| ())?),
        }
    }

    /// # Errors
    /// When the browser does not answer.
    pub async fn clear_cookies(&self) -> Result<(), BrowserError> {
        let parameters = json!({"browserContextId": self.id()});
        let cleared = self.shared().connection.call::<IgnoredAny>(None, "Storage.clearCookies", parameters, QUICK);
        Ok(cleared.await.map(|_| ())?)
    }
}
