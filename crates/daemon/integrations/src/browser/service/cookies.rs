//! Cookies of the session.

use agentd_browser::Cookie;

use super::Browser;
use crate::browser::error::BrowserError;

impl Browser {
    /// Returns all cookies; none without a session.
    ///
    /// # Errors
    /// The browser does not respond.
    pub async fn cookies(&self) -> Result<Vec<Cookie>, BrowserError> {
        match self.running() {
            Ok(session) => Ok(session.context().cookies().await?),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Sets cookies and returns all current ones; starts the browser if necessary.
    ///
    /// # Errors
    /// The browser rejects one of them; none is set then.
    pub async fn set_cookies(&self, cookies: &[Cookie]) -> Result<Vec<Cookie>, BrowserError> {
        let session = self.session().await?;
        session.context().set_cookies(cookies).await?;
        Ok(session.context().cookies().await?)
    }

    /// Deletes all cookies of the running browser.
    ///
    /// # Errors
    /// The browser does not respond.
    pub async fn clear_cookies(&self) -> Result<(), BrowserError> {
        match self.running() {
            Ok(session) => Ok(session.context().clear_cookies().await?),
            Err(_) => Ok(()),
        }
    }
}
