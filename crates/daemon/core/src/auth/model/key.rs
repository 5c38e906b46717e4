//! API keys and tickets.

use agentd_base::{Problems, Secret, Timestamp, typed_id};
use agentd_store::stored_ids;
use agentd_web::Scope;

typed_id!(KeyId, "key");
typed_id!(TicketId, "ticket");
stored_ids!(KeyId, TicketId);

const KEY_PREFIX: &str = "svc_";
pub(crate) const SESSION_PREFIX: &str = "sess_";
pub(crate) const PAGE_SECRET_PREFIX: &str = "page_";
pub(crate) const TICKET_PREFIX: &str = "ticket_";
/// 256 bits in hex.
const LEAST_KEY_DIGITS: usize = 64;
/// A credential longer than this is none of ours, and is not even looked up.
const LONGEST_CREDENTIAL: usize = 512;

/// A key that is in force, as the list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: KeyId,
    pub name: String,
    pub description: Option<String>,
    pub scope: Scope,
    pub created_at: Timestamp,
    pub last_used: Option<Timestamp>,
}

/// What a new key is to be.
#[derive(Debug, Clone)]
pub struct NewKey {
    pub name: String,
    pub description: Option<String>,
    pub scope: Scope,
}

impl NewKey {
    /// A key with the scope `full` and no description.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), description: None, scope: Scope::Full }
    }

    pub(crate) fn check(&self) -> Problems {
        let mut problems = Problems::new();
        problems.require(!self.name.trim().is_empty(), "name", "must not be blank");
        problems.require(!self.name.chars().any(char::is_control), "name", "must not hold control characters");
        problems
    }
}

/// A key that was just made: the only time that it is seen.
#[derive(Debug, Clone)]
pub struct IssuedKey {
    pub id: KeyId,
    pub name: String,
    pub key: Secret,
    pub created_at: Timestamp,
}

/// A ticket that was just made.
#[derive(Debug, Clone)]
pub struct IssuedTicket {
    pub id: TicketId,
    pub ticket: Secret,
    pub expires_in_seconds: u64,
}

pub(crate) fn is_key(credential: &Secret) -> bool {
    credential.expose().len() <= LONGEST_CREDENTIAL && credential.expose().starts_with(KEY_PREFIX)
}

pub(crate) fn is_session(credential: &Secret) -> bool {
    credential.expose().len() <= LONGEST_CREDENTIAL && credential.expose().starts_with(SESSION_PREFIX)
}

/// Whether this has the exact form of a page secret.
pub(crate) fn is_page_secret(secret: &Secret) -> bool {
    is_issued(secret, PAGE_SECRET_PREFIX)
}

/// Whether this has the exact form of a ticket.
pub(crate) fn is_ticket(credential: &Secret) -> bool {
    is_issued(credential, TICKET_PREFIX)
}

/// Whether this has the form of a secret that only the daemon issues: a prefix and 256 bits in lowercase hex.
fn is_issued(secret: &Secret, prefix: &str) -> bool {
    let digits = secret.expose().strip_prefix(prefix).unwrap_or_default();
    digits.len() == LEAST_KEY_DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a key that was not made by us has the form, and at least the strength, of ours.
pub(crate) fn check_bootstrap_key(key: &Secret) -> bool {
    let digits = key.expose().strip_prefix(KEY_PREFIX).unwrap_or_default();
    (LEAST_KEY_DIGITS..=LONGEST_CREDENTIAL - KEY_PREFIX.len()).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[must_use]
pub(crate) fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Full => "full",
        Scope::Read => "read",
    }
}

/// The scope of a stored name. What is not known may do least.
#[must_use]
pub(crate) fn scope_of(name: &str) -> Scope {
    if name == "full" { Scope::Full } else { Scope::Read }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_issued_secrets_have_the_form_of_tickets_and_page_secrets() {
        let issue = |prefix| agentd_base::Entropy::seeded(1).secret(prefix);
        assert!(is_ticket(&issue(TICKET_PREFIX)) && is_page_secret(&issue(PAGE_SECRET_PREFIX)));
        assert!(!is_page_secret(&issue(TICKET_PREFIX)) && !is_ticket(&issue(SESSION_PREFIX)));
        for other in ["", "ticket_", "ticket_00", &format!("svc_{}", "0a".repeat(32))] {
            assert!(!is_ticket(&Secret::new(other.to_owned())), "{other}");
        }
        for (digits, count) in [("0a", 31), ("0a", 33), ("0A", 32), ("0g", 32)] {
            assert!(!is_ticket(&Secret::new(format!("{TICKET_PREFIX}{}", digits.repeat(count)))));
        }
    }

    #[test]
    fn only_strong_keys_are_adopted() {
        let is_fine = |text: String| check_bootstrap_key(&Secret::new(text));
        assert!(is_fine(format!("svc_{}", "0aF9".repeat(16))));
        assert!(is_fine(format!("svc_{}", "0a".repeat(64))));
        assert!(!is_fine(format!("svc_{}", "0a".repeat(31))));
        assert!(!is_fine(format!("svc_{}g", "0a".repeat(32))));
        assert!(!is_fine(format!("sess_{}", "0a".repeat(32))));
        assert!(!is_fine(format!("svc_{}\n", "0a".repeat(32))));
        assert!(!is_fine(format!("svc_{}", "0a".repeat(1000))));
        assert!(!is_fine(String::new()));
    }
}
