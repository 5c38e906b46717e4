//! What comes in.

use std::fmt;

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outgoing::Address;

/// Something of a verified request that concerns an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    Message(IncomingMessage),
    Decision(Decision),
    Undelivered(Undelivered),
}

/// A message that the platform had taken did not reach its person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// [`Sent::id`](crate::Sent::id) of the message.
    pub message_id: String,
    /// A sentence for the owner, without anything secret.
    pub reason: String,
}

/// Who wrote, as the platform says; never a bot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// What the platform knows them by; it never changes.
    pub id: String,
    /// For people to read. Untrusted, and may be empty.
    pub name: String,
}

/// Where it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// A direct chat, a channel, a group, a room.
    pub id: String,
    /// A thread in it, where messages are in one.
    pub thread: Option<String>,
    /// Whether others than the sender read it.
    pub is_group: bool,
}

/// A file or a picture: named here, and fetched by [`ChatPlatform::open_file`](crate::ChatPlatform::open_file).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// As the sender named it; untrusted, and may be empty.
    pub name: String,
    pub media_type: Option<String>,
    pub bytes: Option<u64>,
    /// `None`: the platform does not hand it out to bots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<FileSource>,
}

/// Where a platform has a file, in a form of the platform's own. It may hold an address that opens the file to anybody:
/// `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileSource(pub(crate) Value);

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileSource(…)")
    }
}

/// A message of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct IncomingMessage {
    /// Unique on the platform, and the same however often the platform sends it.
    pub id: String,
    pub sender: Sender,
    pub chat: Chat,
    /// Whether it is meant for the agent: written directly, mentioning it, in answer to it, or by a command.
    pub is_addressed: bool,
    /// The sender's own words as plain text, without the mention of the agent. Contents that are no text are named in
    /// brackets. May be empty where there is context or a file.
    pub text: String,
    /// Words of others that the message forwards or answers, each line marked as quoted; empty where there are none.
    pub context: String,
    pub attachments: Vec<Attachment>,
    /// Of messages that the sender sent as one: what they have in common.
    pub album: Option<String>,
    /// The message holds nothing that can be read; this names such messages in the plural, such as `stories`.
    pub unreadable: Option<&'static str>,
    /// When it was written, where the platform says so.
    pub sent_at: Option<Timestamp>,
    /// Where an answer goes.
    pub reply_to: Address,
}

/// A person pressed a button under a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Unique on the platform, and the same however often the platform sends it.
    pub id: String,
    pub sender: Sender,
    pub chat: Chat,
    /// [`Button::data`](crate::Button::data) as it was given, or that of another program's button.
    pub data: String,
    /// [`Sent::id`](crate::Sent::id) of the message that had the button; empty if the platform does not name it.
    pub message_id: String,
    /// The text on the button; empty where the platform does not say it.
    pub label: String,
    /// The message that had the button, for [`ChatPlatform::settle`](crate::ChatPlatform::settle).
    pub message: Address,
    /// Where words about it go.
    pub reply_to: Address,
}

impl Decision {
    /// The press of another program's button as what the person said by it.
    #[must_use]
    pub fn into_message(self) -> IncomingMessage {
        let text = if self.label.is_empty() { self.data } else { self.label };
        IncomingMessage {
            id: self.id,
            sender: self.sender,
            chat: self.chat,
            is_addressed: true,
            text,
            context: String::new(),
            attachments: Vec::new(),
            album: None,
            unreadable: None,
            sent_at: None,
            reply_to: self.reply_to,
        }
    }
}
