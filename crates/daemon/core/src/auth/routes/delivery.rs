//! Extraction of the client of a login, and delivery of its session: as a token in the body, or as a page session in a
//! cookie and a page secret.

use std::convert::Infallible;

use agentd_web::{ApiError, ClientAddress, CookieScope, RequestingPage, session_cookies};
use axum::extract::FromRequestParts;
use axum::response::AppendHeaders;
use http::header::{SET_COOKIE, USER_AGENT};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::auth::model::{LoggedIn, LoginOrigin, UserAgent};

/// Values of `Set-Cookie`.
pub type SetCookies = AppendHeaders<Vec<(HeaderName, HeaderValue)>>;

pub(super) fn set_cookies(values: Vec<HeaderValue>) -> SetCookies {
    AppendHeaders(values.into_iter().map(|value| (SET_COOKIE, value)).collect())
}

impl<S: Send + Sync> FromRequestParts<S> for LoginOrigin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self {
            address: parts.extensions.get::<ClientAddress>().map(|ClientAddress(address)| *address),
            user_agent: parts.headers.get(USER_AGENT).and_then(|agent| UserAgent::parse(agent.as_bytes())),
            is_page: false,
            replaces: session_cookies(&parts.headers),
        })
    }
}

/// Form of delivery of a session.
#[derive(Debug, Clone)]
pub enum SessionDelivery {
    /// As a Bearer token in the body.
    Body,
    /// As a page session: the token in a cookie, the page secret in the body.
    Page { is_secure: bool, cookies: CookieScope },
}

/// Delivered session; the body has either the token or the page secret.
pub(super) struct Delivered {
    pub(super) cookies: SetCookies,
    pub(super) token: Option<String>,
    pub(super) page_secret: Option<String>,
}

impl SessionDelivery {
    /// Selects the delivery that the request asks for.
    ///
    /// # Errors
    /// 403 if a page of another origin requests a cookie.
    pub fn requested(in_cookie: bool, page: RequestingPage) -> Result<Self, ApiError> {
        match (in_cookie, page.origin.is_own) {
            (false, _) => Ok(Self::Body),
            (true, true) => Ok(Self::Page { is_secure: page.origin.is_secure, cookies: page.cookies }),
            // Otherwise the page could log the browser in to an account of its choice.
            (true, false) => Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "Session cookies are not available to pages of other origins; open the daemon's own address, or omit `cookie`",
            )),
        }
    }

    /// Completes the origin of the login. A browser has one page session, which the new one replaces; a client that
    /// takes tokens may have several.
    #[must_use]
    pub fn complete(&self, origin: LoginOrigin) -> LoginOrigin {
        match self {
            Self::Body => LoginOrigin { replaces: Vec::new(), ..origin },
            Self::Page { .. } => LoginOrigin { is_page: true, ..origin },
        }
    }

    pub(super) fn deliver(&self, logged_in: &LoggedIn) -> Delivered {
        let page_secret = logged_in.page_secret.as_ref().map(|secret| secret.expose().to_owned());
        match self {
            Self::Body => Delivered {
                cookies: set_cookies(Vec::new()),
                token: Some(logged_in.token.expose().to_owned()),
                page_secret,
            },
            Self::Page { is_secure, cookies } => {
                let cookies = cookies.keep_session(&logged_in.token, logged_in.expires_in_seconds, *is_secure);
                Delivered { cookies: set_cookies(cookies), token: None, page_secret }
            }
        }
    }
}
