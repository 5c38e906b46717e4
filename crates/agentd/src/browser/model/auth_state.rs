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
