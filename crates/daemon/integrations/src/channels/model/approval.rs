//! Approvals that are requested in a chat.

use agentd_base::Entropy;
use agentd_chat_platforms::{Button, ButtonStyle, Platform};
use agentd_engine::engine::ApprovalId;

/// Number of different codes.
const CODES: u32 = 1_000_000;
const APPROVE: &str = "approve:";
const REJECT: &str = "reject:";

/// Where an approval was requested: it can be decided there and nowhere else in chats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChatApproval {
    pub approval_id: ApprovalId,
    pub platform: Platform,
    pub chat_id: String,
    pub thread: Option<String>,
    pub code: ApprovalCode,
    /// Whether the chat shows the whole input.
    pub can_approve: bool,
    /// Identifier of the message that has the buttons; `None` until it is sent.
    pub message_id: Option<String>,
}

/// Six digits that name an approval within its conversation. It is not a secret: the sender decides who may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ApprovalCode(pub u32);

impl ApprovalCode {
    pub(crate) fn generate(entropy: &Entropy) -> Self {
        Self(u32::from_le_bytes(entropy.bytes()) % CODES)
    }

    fn parse(text: &str) -> Option<Self> {
        let is_code = text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_code).map(Self)
    }
}

impl std::fmt::Display for ApprovalCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

/// Reads `approve 123456` or `reject 123456`, with or without a slash.
pub(crate) fn parse_decision(text: &str) -> Option<(bool, ApprovalCode)> {
    let mut words = text.split_whitespace();
    let (verb, code) = (words.next()?, ApprovalCode::parse(words.next()?)?);
    let verb = verb.strip_prefix('/').unwrap_or(verb);
    let is_approved = verb.eq_ignore_ascii_case("approve");
    let is_decision = words.next().is_none() && (is_approved || verb.eq_ignore_ascii_case("reject"));
    is_decision.then_some((is_approved, code))
}

/// The buttons that decide an approval.
pub(crate) fn buttons(approval: &str, can_approve: bool) -> Vec<Button> {
    let button = |label: &str, action: &str, style| Button {
        label: label.to_owned(),
        data: format!("{action}{approval}"),
        style,
    };
    let approve = can_approve.then(|| button("Approve", APPROVE, ButtonStyle::Primary));
    approve.into_iter().chain([button("Reject", REJECT, ButtonStyle::Danger)]).collect()
}

/// The decision and the approval that a button names; `None`: the button is of another program.
pub(crate) fn parse_button(data: &str) -> Option<(bool, ApprovalId)> {
    let approved = data.strip_prefix(APPROVE).map(|id| (true, ApprovalId::from(id)));
    approved.or_else(|| data.strip_prefix(REJECT).map(|id| (false, ApprovalId::from(id))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_is_a_verb_and_a_six_digit_code() {
        assert_eq!(parse_decision(" Approve  004711 "), Some((true, ApprovalCode(4711))));
        assert_eq!(parse_decision("/reject 123456"), Some((false, ApprovalCode(123_456))));
        for other in ["approve", "approve 1234567", "approve +12345", "approve 123456 now", "accept 123456", ""] {
            assert_eq!(parse_decision(other), None, "{other}");
        }
        assert_eq!(ApprovalCode(4711).to_string(), "004711");
    }
}
