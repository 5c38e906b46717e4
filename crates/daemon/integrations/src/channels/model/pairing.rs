//! Pairing of unknown senders.

use std::time::Duration;

use agentd_base::{Entropy, Timestamp};
use agentd_chat_platforms::{Address, Platform, Sender};
use agentd_core::rate_limit::{Limits, Rate};

use super::message::QUEUE;

/// Lifetime of a code.
pub(crate) const CODE_LIFETIME: Duration = Duration::from_secs(3600);
/// Maximum number of open codes per platform.
pub(crate) const MAX_OPEN_CODES: u64 = 100;
/// Minimum time between two notifications about a platform whose codes are used up.
pub(crate) const PAIRING_LIMIT_NOTICE_INTERVAL: Duration = Duration::from_secs(3600);
/// Limits of codes that replace another one, per platform, because each sends a message.
pub(crate) const EVICTION_LIMITS: Limits = Limits {
    of_one: Rate { per_minute: 300 },
    in_all: Rate { per_minute: 300 * Platform::ALL.len() as u32 },
    senders: Platform::ALL.len(),
    queue: QUEUE,
    max_waiting: u64::MAX,
    queue_is_full: "",
};
const CODE_CHARACTERS: usize = 8;
/// Omits characters that are easily confused.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Request of an unknown sender for approval.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairing {
    pub platform: Platform,
    pub code: String,
    pub sender: Sender,
    pub(crate) reply_to: Address,
    pub(crate) is_refused: bool,
    pub requested_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Sender approved by the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedSender {
    pub platform: Platform,
    pub sender: Sender,
    pub approved_at: Timestamp,
    /// Whether the sender decides approvals in chats of the platform.
    pub is_owner: bool,
}

/// The approved senders of a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedSenders {
    /// Approved senders, the first approved one first.
    pub senders: Vec<ApprovedSender>,
    /// The owner, who may also be one of `allowed_senders`.
    pub owner_id: Option<String>,
}

/// Generates a code of 40 bits that is easy to read out.
pub(crate) fn new_code(entropy: &Entropy) -> String {
    let bytes: [u8; CODE_CHARACTERS] = entropy.bytes();
    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_uses_only_unambiguous_characters() {
        let code = new_code(&Entropy::seeded(1));
        assert!(code.len() == CODE_CHARACTERS && code.bytes().all(|byte| ALPHABET.contains(&byte)), "{code}");
        assert_ne!(code, new_code(&Entropy::seeded(2)));
    }
}
