//! The kinds of messages and events of each platform, and what happens to them. `docs/guide/channels.md` shows the same
//! tables.

use crate::platform::Platform;
use crate::{discord, google_chat, slack, teams, telegram, whatsapp};

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

/// Every kind of message and event of the platform.
#[must_use]
pub fn message_kinds(platform: Platform) -> &'static [MessageKind] {
    match platform {
        Platform::Discord => discord::KINDS,
        Platform::Slack => slack::KINDS,
        Platform::Telegram => telegram::KINDS,
        Platform::Whatsapp => whatsapp::KINDS,
        Platform::Teams => teams::KINDS,
        Platform::GoogleChat => google_chat::KINDS,
    }
}

/// What happens to messages of this name; `None` where the table does not name it.
pub(crate) fn handling(kinds: &[MessageKind], name: &str) -> Option<Handling> {
    kinds.iter().find(|kind| kind.name == name).map(|kind| kind.handling)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;

    const BEGIN: &str = "<!-- message kinds: written by make channels-guide -->\n";
    const END: &str = "<!-- end of message kinds -->\n";

    fn title(platform: Platform) -> &'static str {
        match platform {
            Platform::Discord => "Discord",
            Platform::Slack => "Slack",
            Platform::Telegram => "Telegram",
            Platform::Whatsapp => "WhatsApp",
            Platform::Teams => "Microsoft Teams",
            Platform::GoogleChat => "Google Chat",
        }
    }

    /// One table for each platform; kinds that are handled alike share a row.
    fn tables() -> String {
        let mut page = String::new();
        for platform in Platform::ALL {
            page.push_str(&format!("\n### {}\n\n| Sent | Result |\n|---|---|\n", title(platform)));
            let kinds = message_kinds(platform);
            let mut shown: Vec<Handling> = Vec::new();
            for kind in kinds {
                if shown.contains(&kind.handling) {
                    continue;
                }
                shown.push(kind.handling);
                let names = kinds.iter().filter(|other| other.handling == kind.handling);
                let names: Vec<String> = names.map(|kind| format!("`{}`", kind.name)).collect();
                let result = match kind.handling {
                    Handling::Read(form) => format!("Read: {form}"),
                    Handling::Answered(what) => format!("Answered: \"agentd cannot read {what} yet.\""),
                    Handling::Ignored(reason) => format!("Ignored: {reason}"),
                };
                page.push_str(&format!("| {} | {} |\n", names.join(", "), result.replace('|', "\\|")));
            }
        }
        page.push('\n');
        page
    }

    /// With `AGENTD_TEST_REWRITE` it writes the tables instead.
    #[test]
    fn guide_shows_the_tables() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide/channels.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the begin of the tables");
        let (_, after) = rest.split_once(END).expect("the end of the tables");
        let expected = format!("{before}{BEGIN}{}{END}{after}", tables());
        if std::env::var_os("AGENTD_TEST_REWRITE").is_some() {
            std::fs::write(&path, &expected).unwrap();
            return;
        }
        assert!(page == expected, "docs/guide/channels.md differs from the code; run `make channels-guide`");
    }

    #[test]
    fn names_are_unique() {
        for platform in Platform::ALL {
            let kinds = message_kinds(platform);
            let names: HashSet<&str> = kinds.iter().map(|kind| kind.name).collect();
            assert_eq!(names.len(), kinds.len(), "{platform:?}");
        }
    }
}
