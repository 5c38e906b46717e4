//! Kinds of messages and events, and what happens to them.

/// What happens to a message of some kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// It reaches the agent, in this form.
    Read(&'static str),
    /// Its sender is told that agentd cannot read these yet.
    Answered(&'static str),
    /// Nothing happens, for this reason.
    Ignored(&'static str),
}

/// A kind of message, by its name in the platform's API.
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

/// Messages of a kind that no table names.
pub(crate) const OTHER: &str = "messages of this kind";
/// Reason for ignoring what a platform reports about a chat.
pub(crate) const REPORT: &str = "reports something about the chat and holds no message";
/// Reason for ignoring reactions.
pub(crate) const REACTION: &str = "a reaction is no message";
/// Reason for ignoring edits.
pub(crate) const EDIT: &str = "changes a message that may be answered already";
/// Reason for ignoring deletions.
pub(crate) const DELETION: &str = "removes a message that may be answered already";

/// What happens to messages of this name; `None` where the table does not name it.
pub(crate) fn handling(kinds: &[MessageKind], name: &str) -> Option<Handling> {
    kinds.iter().find(|kind| kind.name == name).map(|kind| kind.handling)
}
