//! Kinds of messages and events, and their handling.

/// Handling of a kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// Passed to the agent in this form.
    Read(&'static str),
    /// The sender is told that agentd cannot read these messages yet.
    Answered(&'static str),
    /// Ignored for this reason.
    Ignored(&'static str),
}

/// Kind of message with its name in the platform's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageKind {
    pub name: &'static str,
    pub handling: Handling,
}

impl MessageKind {
    pub(crate) const fn read(name: &'static str, form: &'static str) -> Self {
        Self { name, handling: Handling::Read(form) }
    }

    pub(crate) const fn answered(name: &'static str, what: &'static str) -> Self {
        Self { name, handling: Handling::Answered(what) }
    }

    pub(crate) const fn ignored(name: &'static str, reason: &'static str) -> Self {
        Self { name, handling: Handling::Ignored(reason) }
    }
}

/// Description of messages of an unknown kind.
pub(crate) const OTHER: &str = "messages of this kind";
/// Reason for ignoring service messages about a chat.
pub(crate) const REPORT: &str = "reports something about the chat and contains no message";
/// Reason for ignoring reactions.
pub(crate) const REACTION: &str = "a reaction is not a message";
/// Reason for ignoring edits.
pub(crate) const EDIT: &str = "changes a message that may already be answered";
/// Reason for ignoring deletions.
pub(crate) const DELETION: &str = "deletes a message that may already be answered";

/// Returns the handling of a kind, or `None` if the table does not contain it.
pub(crate) fn handling(kinds: &[MessageKind], name: &str) -> Option<Handling> {
    kinds.iter().find(|kind| kind.name == name).map(|kind| kind.handling)
}
