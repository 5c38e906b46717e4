//! Actions, profile changes, recordings and actors.

mod action;
mod profile;
mod recording;

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;

pub use action::{ActionName, BrowserAction};
pub(super) use profile::ProfileChange;
pub(super) use recording::{MAX_RECORDINGS, RecordingHeader};
pub use recording::{RecordingId, RecordingState, RecordingSummary, StoredStep};

/// The user of the browser: the owner through the API, or an agent through its tools. Each actor has its own active
/// tab; the rest of the session is shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Actor {
    #[default]
    Owner,
    Agent(AgentId),
}

/// A stored login state by name, without its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthState {
    pub name: String,
    pub cookies: u64,
    pub origins: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl AuthState {
    pub(super) const NAME_RULE: &str =
        "must be 1 to 63 of `a-z`, `0-9`, `_` and `-`, beginning with a letter or a digit";

    pub(super) fn is_name(name: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        name.len() <= 63
            && name.bytes().next().is_some_and(is_plain)
            && name.bytes().all(|byte| is_plain(byte) || matches!(byte, b'_' | b'-'))
    }
}
