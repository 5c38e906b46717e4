//! The account and its sessions.

use agentd_base::{Problems, Secret, Timestamp, typed_id};
use agentd_store::stored_ids;

typed_id!(UserId, "user");
typed_id!(
    /// Names a login; the token itself is stored nowhere.
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

/// A session that was just begun: the only time that its token is seen.
#[derive(Debug, Clone)]
pub struct LoggedIn {
    pub user: User,
    pub session: UserSessionId,
    pub token: Secret,
    pub expires_in_seconds: u64,
    /// Whether an API key was ever made; until then the session opens nothing.
    pub bootstrap_mode: bool,
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
        "must not begin or end with a space, nor hold control characters",
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
    fn names_every_bad_field() {
        assert!(fields("zoë", "12345678").is_empty());
        assert_eq!(fields("ab", "1234567"), ["username", "password"]);
        assert_eq!(fields(" abc", "12345678"), ["username"]);
        assert_eq!(fields("a\u{7}bc", "12345678"), ["username"]);
        assert_eq!(fields(&"x".repeat(65), &"x".repeat(1025)), ["username", "password"]);
    }
}
