//! Incoming messages and decisions.

use std::fmt;

use agentd_base::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outgoing::Address;

/// Item of a verified request that concerns an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    Message(IncomingMessage),
    Decision(Decision),
    Undelivered(Undelivered),
}

/// Message that the platform accepted but did not deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// [`Sent::id`](crate::Sent::id) of the message.
    pub message_id: String,
    /// Reason for the owner, without secrets.
    pub reason: String,
}

/// Sender of a message, never a bot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// Stable ID on the platform.
    pub id: String,
    /// Display name. Untrusted; may be empty.
    pub name: String,
}

/// Chat of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// ID of the direct chat, channel, group or room.
    pub id: String,
    /// Thread in the chat, if the platform has threads.
    pub thread: Option<String>,
    /// Whether users other than the sender can read it.
    pub is_group: bool,
}

/// File or picture, which [`ChatPlatform::open_file`](crate::ChatPlatform::open_file) downloads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// File name given by the sender. Untrusted; may be empty.
    pub name: String,
    pub media_type: Option<String>,
    pub bytes: Option<u64>,
    /// Source; `None` if the platform does not provide the file to bots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<FileSource>,
}

/// Platform-specific source of a file. It may contain a URL that grants access to anyone, so `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileSource(pub(crate) Value);

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileSource(…)")
    }
}

/// Message of a user.
#[derive(Debug, Clone, PartialEq)]
pub struct IncomingMessage {
    /// Unique ID on the platform, stable across redeliveries.
    pub id: String,
    pub sender: Sender,
    pub chat: Chat,
    /// Whether it is addressed to the agent: a direct message, mention, reply or command.
    pub is_addressed: bool,
    /// Text of the sender as plain text, without the mention of the agent. Non-text contents are described in brackets.
    /// May be empty if there is context or a file.
    pub text: String,
    /// Quoted text of forwarded or answered messages, with each line marked as quoted; may be empty.
    pub context: String,
    pub attachments: Vec<Attachment>,
    /// ID shared by messages that the sender sent together.
    pub album: Option<String>,
    /// Plural description of unreadable messages such as `stories`, if nothing in this message can be read.
    pub unreadable: Option<&'static str>,
    /// Time of writing, if the platform reports it.
    pub sent_at: Option<Timestamp>,
    /// Address for a reply.
    pub reply_to: Address,
}

/// Press of a button below a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Unique ID on the platform, stable across redeliveries.
    pub id: String,
    pub sender: Sender,
    pub chat: Chat,
    /// [`Button::data`](crate::Button::data), or the data of another program's button.
    pub data: String,
    /// [`Sent::id`](crate::Sent::id) of the message with the button; empty if the platform does not report it.
    pub message_id: String,
    /// Label of the button; empty if the platform does not report it.
    pub label: String,
    /// Message with the button, for [`ChatPlatform::settle`](crate::ChatPlatform::settle).
    pub message: Address,
    /// Address for replies to the decision.
    pub reply_to: Address,
}

impl Decision {
    /// Converts the press of another program's button to a message with its label as text.
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
