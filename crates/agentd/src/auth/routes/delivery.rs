//! Where a new session goes: into the body, or into a cookie of the daemon's own page.

use agentd_web::{ApiError, RequestingPage, keep_session};
use http::header::SET_COOKIE;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::auth::model::LoggedIn;

pub type SetCookie = Option<[(HeaderName, HeaderValue); 1]>;

/// How a session is handed over.
#[derive(Debug, Clone, Copy)]
pub enum SessionDelivery {
    Body,
    Cookie { is_secure: bool },
}

impl SessionDelivery {
    /// # Errors
    /// 403 for a page of another origin that wants a cookie.
    pub fn wanted(in_cookie: bool, page: RequestingPage) -> Result<Self, ApiError> {
        match (in_cookie, page) {
            (false, _) => Ok(Self::Body),
            (true, RequestingPage { is_own: true, is_secure }) => Ok(Self::Cookie { is_secure }),
            // It would choose whose account the browser is logged in to.
            (true, _) => Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "A page of another origin gets no session cookie; open the daemon's own address, or leave `cookie` out",
            )),
        }
    }

    /// The header and the token of the body; one of them.
    pub(super) fn deliver(self, logged_in: &LoggedIn) -> (SetCookie, Option<String>) {
        match self {
            Self::Body => (None, Some(logged_in.token.expose().to_owned())),
            Self::Cookie { is_secure } => {
                let cookie = keep_session(&logged_in.token, logged_in.expires_in_seconds, is_secure);
                (Some([(SET_COOKIE, cookie)]), None)
            }
        }
    }
}
