//! Cookies of a context, in the form of Playwright's storage states.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::BrowserError;
use crate::browser::Context;
use crate::tab::QUICK;

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
    cookies: Vec<Cookie>,
}

impl Context {
    /// All of its cookies.
    ///
    /// # Errors
    /// When the browser does not answer.
    pub async fn cookies(&self) -> Result<Vec<Cookie>, BrowserError> {
        let parameters = json!({"browserContextId": self.id()});
        let cookies: Cookies = self.shared().connection.call(None, "Storage.getCookies", parameters, QUICK).await?;
        Ok(cookies.cookies)
    }

    /// Sets cookies; one of the same name, domain and path is replaced.
    ///
    /// # Errors
    /// [`BrowserError::Invalid`] for a cookie that the browser does not take; then none is set.
    pub async fn set_cookies(&self, cookies: &[Cookie]) -> Result<(), BrowserError> {
        if cookies.len() > MAX_COOKIES {
            return Err(BrowserError::Invalid(format!("more than {MAX_COOKIES} cookies at once")));
        }
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
