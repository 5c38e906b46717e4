//! Tables of the message and event kinds of each platform, also contained in `docs/reference/channel-messages.md`.

use crate::kinds::MessageKind;
use crate::platform::Platform;
use crate::{discord, google_chat, slack, teams, telegram, whatsapp};

/// Returns every kind of message and event of a platform.
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::*;
    use crate::kinds::Handling;

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

    /// Returns the tables as Markdown; kinds with the same handling share a row.
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

    /// Updates the guide instead if `AGENTD_TEST_REWRITE` is set.
    #[test]
    fn guide_contains_the_tables() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/channel-messages.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the begin of the tables");
        let (_, after) = rest.split_once(END).expect("the end of the tables");
        let expected = format!("{before}{BEGIN}{}{END}{after}", tables());
        if std::env::var_os("AGENTD_TEST_REWRITE").is_some() {
            std::fs::write(&path, &expected).unwrap();
            return;
        }
        assert!(
            page == expected,
            "docs/reference/channel-messages.md differs from the code; run `make channels-guide`"
        );
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
