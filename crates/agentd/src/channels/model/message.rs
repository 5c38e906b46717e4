//! A message of a chat platform, and those who write them.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_chat_platforms::{Address, Attachment, Chat, Platform, Sender};

use super::approval::{ApprovalCode, parse_decision};
use crate::admission::{Limits, Rate};

agentd_base::typed_id!(
    /// The id of a message that came from a chat platform.
    ChannelMessageId,
    "cmsg"
);
agentd_store::stored_ids!(ChannelMessageId);

/// The queue of messages whose turns have still to begin.
pub(in crate::channels) const QUEUE: &str = "channels";

/// Of each platform: what people write, and not what a flood does.
pub(in crate::channels) const LIMITS: Limits = Limits {
    of_one: Rate { per_minute: 60 },
    in_all: Rate { per_minute: 12_000 },
    senders: 10_000,
    queue: QUEUE,
    max_waiting: 10_000,
    queue_is_full: "too many messages wait for their agents",
};

/// How long messages that were answered are kept, and with them what tells a repeated one.
pub(in crate::channels) const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// A message for an agent, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::channels) struct ChannelMessage {
    pub id: ChannelMessageId,
    pub platform: Platform,
    pub external_id: String,
    pub sender: Sender,
    /// Whether the owner let the sender in, or named them.
    pub is_trusted: bool,
    pub chat: Chat,
    pub content: String,
    pub attachments: Vec<Attachment>,
    pub reply_to: Address,
    pub received_at: Timestamp,
}

impl ChannelMessage {
    /// Whose turn it is where several wait for a model.
    pub(in crate::channels) fn client(&self) -> String {
        format!("{} {}", self.platform.id(), self.sender.id)
    }

    /// What a person asks the daemon itself for.
    pub(in crate::channels) fn command(&self) -> Option<Command> {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::channels) enum Command {
    /// The next message begins another conversation.
    New,
    /// Ends the reply that is being written.
    Stop,
    Help,
    /// Decides an approval of the conversation.
    Decide {
        is_approved: bool,
        code: ApprovalCode,
    },
}

/// What became of a message, as its status says from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::channels) enum MessageEnd {
    Answered,
    Failed,
    Dropped,
}

impl MessageEnd {
    pub(in crate::channels) fn as_str(self) -> &'static str {
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
            attachments: Vec::new(),
            reply_to: Address::of_channel("1"),
            received_at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn commands_stand_alone() {
        assert_eq!(message(" /NEW ").command(), Some(Command::New));
        assert_eq!(message("/start").command(), Some(Command::Help));
        assert_eq!(message("/stop it").command(), None);
        let decision = Command::Decide { is_approved: true, code: ApprovalCode(4711) };
        assert_eq!(message("approve 004711").command(), Some(decision));
    }
}
