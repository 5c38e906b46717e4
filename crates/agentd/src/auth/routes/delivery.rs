//! Where a login comes from, and where its session goes: into the body, or into a cookie of the daemon's own page.

use std::convert::Infallible;

use agentd_web::{ApiError, ClientAddress, RequestingPage, keep_session, only_session};
use axum::extract::FromRequestParts;
use http::header::{SET_COOKIE, USER_AGENT};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::auth::model::{LoggedIn, LoginOrigin, UserAgent};

pub type SetCookie = Option<[(HeaderName, HeaderValue); 1]>;

impl<S: Send + Sync> FromRequestParts<S> for LoginOrigin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self {
            address: parts.extensions.get::<ClientAddress>().map(|ClientAddress(address)| *address),
            user_agent: parts.headers.get(USER_AGENT).and_then(|agent| UserAgent::of(agent.as_bytes())),
            replaces: only_session(&parts.headers),
        })
    }
}

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

    /// A browser keeps one session; who takes a token may keep several.
    #[must_use]
    pub fn known_by(self, origin: LoginOrigin) -> LoginOrigin {
        match self {
            Self::Body => LoginOrigin { replaces: None, ..origin },
            Self::Cookie { .. } => origin,
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
