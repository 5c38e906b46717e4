//! Cookies of the session.

use agentd_browser::Cookie;

use super::Browser;
use crate::browser::error::BrowserError;

impl Browser {
    /// All of them; none without a session.
    ///
    /// # Errors
    /// When the browser does not answer.
    pub async fn cookies(&self) -> Result<Vec<Cookie>, BrowserError> {
        match self.running() {
            Ok(session) => Ok(session.context().cookies().await?),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Sets cookies, starting the browser if there is none; answers all that there are then.
    ///
    /// # Errors
    /// The browser does not take one of them; then none is set.
    pub async fn set_cookies(&self, cookies: &[Cookie]) -> Result<Vec<Cookie>, BrowserError> {
        let session = self.session().await?;
        session.context().set_cookies(cookies).await?;
        Ok(session.context().cookies().await?)
    }

    /// # Errors
    /// When the browser does not answer.
    pub async fn clear_cookies(&self) -> Result<(), BrowserError> {
        match self.running() {
            Ok(session) => Ok(session.context().clear_cookies().await?),
            Err(_) => Ok(()),
        }
    }
}
