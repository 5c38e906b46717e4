//! Account and login sessions.

use std::net::IpAddr;

use agentd_base::{Problems, Secret, Timestamp, typed_id};
use agentd_store::stored_ids;
use agentd_web::PasswordProof;

typed_id!(UserId, "user");
typed_id!(
    /// Id of a login session. The token is not stored.
    UserSessionId,
    "login"
);
stored_ids!(UserId, UserSessionId);

const USERNAME_CHARACTERS: std::ops::RangeInclusive<usize> = 3..=64;
const PASSWORD_CHARACTERS: std::ops::RangeInclusive<usize> = 8..=1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub username: String,
    pub created_at: Timestamp,
}

/// New session with its token, which is available only here.
#[derive(Debug, Clone)]
pub struct LoggedIn {
    pub user: User,
    pub session: UserSessionId,
    pub token: Secret,
    /// Second secret of a page session; `None` if the token is a Bearer token.
    pub page_secret: Option<Secret>,
    pub expires_in_seconds: u64,
    /// Whether no API key has been created yet; until then the session grants no access.
    pub bootstrap_mode: bool,
}

/// Client of a login.
#[derive(Debug, Clone, Default)]
pub struct LoginOrigin {
    /// `None` on the daemon's private socket.
    pub address: Option<IpAddr>,
    pub user_agent: Option<UserAgent>,
    /// Whether the login starts a page session.
    pub is_page: bool,
    /// Tokens of the session cookies sent by the browser; the new session replaces these sessions.
    pub replaces: Vec<Secret>,
}

/// `User-Agent` of a client: one line of bounded length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserAgent(String);

impl UserAgent {
    const MAX_CHARACTERS: usize = 256;

    /// Removes control characters and truncates the header; `None` if nothing remains.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(header);
        let shown: String = text.chars().filter(|c| !c.is_control()).take(Self::MAX_CHARACTERS).collect();
        let shown = shown.trim();
        (!shown.is_empty()).then(|| Self(shown.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Active session, without its token.
#[derive(Debug, Clone)]
pub struct UserSession {
    pub id: UserSessionId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// Accurate to the minute; `None` if not used yet.
    pub last_used_at: Option<Timestamp>,
    pub user_agent: Option<String>,
    pub address: Option<String>,
}

/// Whether the password must be confirmed again. `page` is `None` for credentials that are not page session; otherwise
/// it contains the end of the last confirmation.
#[must_use]
pub(crate) fn password_proof(page: Option<Option<Timestamp>>, now: Timestamp) -> PasswordProof {
    match page {
        None => PasswordProof::NotRequired,
        Some(Some(until)) if now < until => PasswordProof::Recent,
        Some(_) => PasswordProof::Missing,
    }
}

/// Validates the name and password of a new account.
pub(crate) fn check_account(username: &str, password: &Secret) -> Problems {
    let mut problems = Problems::new();
    problems.require(
        USERNAME_CHARACTERS.contains(&username.chars().count()),
        "username",
        format!("must have {} to {} characters", USERNAME_CHARACTERS.start(), USERNAME_CHARACTERS.end()),
    );
    problems.require(
        username.trim() == username && !username.chars().any(char::is_control),
        "username",
        "must not begin or end with a space or contain control characters",
    );
    problems.require(
        PASSWORD_CHARACTERS.contains(&password.expose().chars().count()),
        "password",
        format!("must have {} to {} characters", PASSWORD_CHARACTERS.start(), PASSWORD_CHARACTERS.end()),
    );
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(username: &str, password: &str) -> Vec<String> {
        let problems = check_account(username, &Secret::new(password.to_owned())).into_result();
        problems.err().unwrap_or_default().into_iter().map(|problem| problem.field).collect()
    }

    #[test]
    fn user_agent_is_truncated_to_one_line() {
        let shown = |header: &[u8]| UserAgent::parse(header).map(|agent| agent.as_str().to_owned());
        assert_eq!(shown(b" Mozilla/5.0\t(\x07X11) "), Some("Mozilla/5.0(X11)".to_owned()));
        assert_eq!(shown(&[b'x'; 5000]), Some("x".repeat(256)));
        assert_eq!(shown(b"\t \x7f"), None);
        assert!(shown(b"\xff\xfe").is_some());
    }

    #[test]
    fn check_account_reports_every_invalid_field() {
        assert!(fields("zoë", "12345678").is_empty());
        assert_eq!(fields("ab", "1234567"), ["username", "password"]);
        assert_eq!(fields(" abc", "12345678"), ["username"]);
        assert_eq!(fields("a\u{7}bc", "12345678"), ["username"]);
        assert_eq!(fields(&"x".repeat(65), &"x".repeat(1025)), ["username", "password"]);
    }
}
