//! A kept state of being signed in.

use agentd_base::Timestamp;

/// A state by its name; never what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthState {
    pub name: String,
    pub cookies: u64,
    pub origins: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl AuthState {
    pub(in crate::browser) const NAME_RULE: &str =
        "must begin with one of a-z and 0-9 and have at most 63 of a-z, 0-9, `_` and `-`";

    pub(in crate::browser) fn is_name(name: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        name.len() <= 63
            && name.bytes().next().is_some_and(is_plain)
            && name.bytes().all(|byte| is_plain(byte) || matches!(byte, b'_' | b'-'))
    }
}
