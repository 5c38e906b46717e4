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
/// Minimum number of hex digits of a key: 256 bits.
const MIN_KEY_DIGITS: usize = 64;
/// Maximum length of a credential in bytes; longer ones are rejected without a lookup.
const MAX_CREDENTIAL_BYTES: usize = 512;

/// Active key without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: KeyId,
    pub name: String,
    pub description: Option<String>,
    pub scope: Scope,
    pub created_at: Timestamp,
    pub last_used: Option<Timestamp>,
}

/// Properties of a key to create.
#[derive(Debug, Clone)]
pub struct NewKey {
    pub name: String,
    pub description: Option<String>,
    pub scope: Scope,
}

impl NewKey {
    /// Creates a key with the scope `full` and no description.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), description: None, scope: Scope::Full }
    }

    pub(crate) fn check(&self) -> Problems {
        let mut problems = Problems::new();
        problems.require(!self.name.trim().is_empty(), "name", "must not be blank");
        problems.require(!self.name.chars().any(char::is_control), "name", "must not contain control characters");
        problems
    }
}

/// Newly created key with its secret, which is available only here.
#[derive(Debug, Clone)]
pub struct IssuedKey {
    pub id: KeyId,
    pub name: String,
    pub key: Secret,
    pub created_at: Timestamp,
}

/// Newly created ticket with its secret.
#[derive(Debug, Clone)]
pub struct IssuedTicket {
    pub id: TicketId,
    pub ticket: Secret,
    pub expires_in_seconds: u64,
}

pub(crate) fn is_key(credential: &Secret) -> bool {
    credential.expose().len() <= MAX_CREDENTIAL_BYTES && credential.expose().starts_with(KEY_PREFIX)
}

pub(crate) fn is_session(credential: &Secret) -> bool {
    credential.expose().len() <= MAX_CREDENTIAL_BYTES && credential.expose().starts_with(SESSION_PREFIX)
}

/// Whether the secret has the format of a page secret.
pub(crate) fn is_page_secret(secret: &Secret) -> bool {
    has_issued_format(secret, PAGE_SECRET_PREFIX)
}

/// Whether the credential has the format of a ticket.
pub(crate) fn is_ticket(credential: &Secret) -> bool {
    has_issued_format(credential, TICKET_PREFIX)
}

/// Whether the secret has the format of secrets issued by the daemon: a prefix and 256 bits in lowercase hex.
fn has_issued_format(secret: &Secret, prefix: &str) -> bool {
    let digits = secret.expose().strip_prefix(prefix).unwrap_or_default();
    digits.len() == MIN_KEY_DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a key provided by the operator has the format and at least the strength of generated keys.
pub(crate) fn is_valid_bootstrap_key(key: &Secret) -> bool {
    let digits = key.expose().strip_prefix(KEY_PREFIX).unwrap_or_default();
    (MIN_KEY_DIGITS..=MAX_CREDENTIAL_BYTES - KEY_PREFIX.len()).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[must_use]
pub(crate) fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Full => "full",
        Scope::Read => "read",
    }
}

/// Parses a stored scope. An unknown scope gets the fewest rights.
#[must_use]
pub(crate) fn parse_scope(name: &str) -> Scope {
    if name == "full" { Scope::Full } else { Scope::Read }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_issued_secrets_match_ticket_and_page_secret_formats() {
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
    fn weak_or_malformed_bootstrap_keys_are_rejected() {
        let is_valid = |text: String| is_valid_bootstrap_key(&Secret::new(text));
        assert!(is_valid(format!("svc_{}", "0aF9".repeat(16))));
        assert!(is_valid(format!("svc_{}", "0a".repeat(64))));
        assert!(!is_valid(format!("svc_{}", "0a".repeat(31))));
        assert!(!is_valid(format!("svc_{}g", "0a".repeat(32))));
        assert!(!is_valid(format!("sess_{}", "0a".repeat(32))));
        assert!(!is_valid(format!("svc_{}\n", "0a".repeat(32))));
        assert!(!is_valid(format!("svc_{}", "0a".repeat(1000))));
        assert!(!is_valid(String::new()));
    }
}
