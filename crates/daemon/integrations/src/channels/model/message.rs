//! Messages of chat platforms and their senders.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_chat_platforms::{Address, Attachment, Button, Chat, Platform, Sender};
use agentd_core::rate_limit::{Limits, Rate};
use serde::{Deserialize, Serialize};

use super::approval::{ApprovalCode, buttons, parse_decision};

agentd_base::typed_id!(
    /// Id of a message from a chat platform.
    ChannelMessageId,
    "cmsg"
);
agentd_store::stored_ids!(ChannelMessageId);

/// Queue of messages whose turns have not started.
pub(crate) const QUEUE: &str = "channels";

/// Limits per platform: above normal use, but below a flood.
pub(crate) const LIMITS: Limits = Limits {
    of_one: Rate { per_minute: 60 },
    in_all: Rate { per_minute: 12_000 },
    senders: 10_000,
    queue: QUEUE,
    max_waiting: 10_000,
    queue_is_full: "too many messages are waiting for agents",
};

/// Retention of answered messages, which also detect repeated deliveries.
pub(crate) const MESSAGE_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Stored message for an agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChannelMessage {
    pub id: ChannelMessageId,
    pub platform: Platform,
    pub external_id: String,
    pub sender: Sender,
    /// Whether the sender is approved or listed in the settings.
    pub is_trusted: bool,
    pub chat: Chat,
    pub content: String,
    /// Text of others that it forwards or answers; may be empty.
    pub context: String,
    pub attachments: Vec<Attachment>,
    /// Album that it is part of, until the parts are joined.
    pub album: Option<String>,
    /// Whether it is addressed to the agent; always true, except for parts of an album.
    pub is_addressed: bool,
    pub reply_to: Address,
    pub received_at: Timestamp,
}

/// Data of an outgoing message in addition to its text.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MessageDetails {
    pub(crate) address: Address,
    /// Approval that the buttons under the message decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) approval_id: Option<String>,
    /// Whether the text shows the whole input of the approval.
    #[serde(default)]
    pub(crate) can_approve: bool,
}

impl MessageDetails {
    pub(crate) fn new(address: Address) -> Self {
        Self { address, approval_id: None, can_approve: false }
    }

    pub(crate) fn buttons(&self) -> Vec<Button> {
        self.approval_id.as_deref().map(|id| buttons(id, self.can_approve)).unwrap_or_default()
    }
}

/// Maximum number of parts of an album that become one message. Telegram has no larger ones.
pub(crate) const MAX_ALBUM_PARTS: u32 = 10;
/// Time without a new part after which an album is complete.
pub(crate) const ALBUM_PAUSE: Duration = Duration::from_secs(1);
/// Maximum time to wait for parts of an album.
pub(crate) const MAX_ALBUM_WAIT: Duration = Duration::from_secs(5);

impl ChannelMessage {
    /// Returns the key by which permits are shared fairly among senders.
    pub(crate) fn client(&self) -> String {
        format!("{} {}", self.platform.id(), self.sender.id)
    }

    /// Joins the parts of an album in order; returns `None` if none is addressed to the agent.
    pub(crate) fn joined(mut parts: Vec<Self>) -> Option<Self> {
        let addressed = parts.iter().find(|part| part.is_addressed)?.reply_to.clone();
        let mut rest = parts.split_off(1).into_iter();
        let mut joined = parts.pop()?;
        (joined.album, joined.is_addressed, joined.reply_to) = (None, true, addressed);
        rest.by_ref().for_each(|part| {
            push_line(&mut joined.content, &part.content);
            // Each part of a forwarded album repeats its source.
            if !joined.context.contains(&part.context) {
                push_line(&mut joined.context, &part.context);
            }
            joined.attachments.extend(part.attachments);
        });
        Some(joined)
    }

    /// Returns the command in the message, if any.
    pub(crate) fn command(&self) -> Option<Command> {
        if let Some((is_approved, code)) = parse_decision(&self.content) {
            return Some(Command::Decide { is_approved, code });
        }
        match self.content.trim().to_ascii_lowercase().as_str() {
            "/new" => Some(Command::New),
            "/stop" => Some(Command::Stop),
            "/help" | "/start" => Some(Command::Help),
            _ => None,
        }
    }
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() && !line.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Starts a new conversation with the next message.
    New,
    /// Cancels the running reply.
    Stop,
    Help,
    /// Decides an approval of the conversation.
    Decide {
        is_approved: bool,
        code: ApprovalCode,
    },
}

/// Final status of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinalStatus {
    Answered,
    Failed,
    Dropped,
}

impl FinalStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(content: &str) -> ChannelMessage {
        ChannelMessage {
            id: ChannelMessageId::from("cmsg_1"),
            platform: Platform::Telegram,
            external_id: "1".to_owned(),
            sender: Sender { id: "1".to_owned(), name: "Ada".to_owned() },
            is_trusted: true,
            chat: Chat { id: "1".to_owned(), thread: None, is_group: false },
            content: content.to_owned(),
            context: String::new(),
            attachments: Vec::new(),
            album: None,
            is_addressed: true,
            reply_to: Address::of_channel("1"),
            received_at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn album_parts_are_joined_into_one_message() {
        let file = |name: &str| Attachment { name: name.to_owned(), media_type: None, bytes: None, source: None };
        let part = |number: u8, content: &str, is_addressed| ChannelMessage {
            attachments: vec![file(&number.to_string())],
            album: Some("a".to_owned()),
            is_addressed,
            context: "[Forwarded message from Bob]".to_owned(),
            reply_to: Address::of_channel(number.to_string()),
            ..message(content)
        };
        let parts = vec![part(1, "", false), part(2, "One", true), part(3, "Two", false)];
        let joined = ChannelMessage::joined(parts).unwrap();
        let expected = ChannelMessage {
            attachments: vec![file("1"), file("2"), file("3")],
            context: "[Forwarded message from Bob]".to_owned(),
            reply_to: Address::of_channel("2"),
            ..message("One\nTwo")
        };
        assert_eq!(joined, expected);
        assert_eq!(ChannelMessage::joined(vec![part(1, "One", false)]), None);
        assert_eq!(ChannelMessage::joined(Vec::new()), None);
    }

    #[test]
    fn command_must_be_the_whole_message() {
        assert_eq!(message(" /NEW ").command(), Some(Command::New));
        assert_eq!(message("/start").command(), Some(Command::Help));
        assert_eq!(message("/stop it").command(), None);
        let decision = Command::Decide { is_approved: true, code: ApprovalCode(4711) };
        assert_eq!(message("approve 004711").command(), Some(decision));
    }
}
