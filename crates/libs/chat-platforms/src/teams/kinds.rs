//! What Teams sends: activities by their types
//! (<https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference>), and the
//! attachments of a message.

use crate::kinds::{DELETION, EDIT, MessageKind, OTHER, REACTION, REPORT};

const NOT_OF_TEAMS: &str = "is no activity of people in Teams";

/// Activities stand by their types, parts of a message by their field or the type of an attachment.
pub(crate) const KINDS: &[MessageKind] = &[
    MessageKind::read("message", "by the fields below"),
    MessageKind::read("text", "its text, without the mention of the bot"),
    MessageKind::read("text/html", "its text where there is no other, and a quote of the message that is answered"),
    MessageKind::read("messageReference", "a quote of the message that is answered"),
    MessageKind::read("forwardedMessageReference", "a quote that is marked as forwarded"),
    MessageKind::read("application/vnd.microsoft.teams.file.download.info", "a file"),
    MessageKind::read("application/vnd.microsoft.card.*", "a quote of the card's text that is marked as forwarded"),
    MessageKind::read(
        "application/vnd.microsoft.teams.card.*",
        "a quote of the card's text that is marked as forwarded",
    ),
    MessageKind::read("other attachments", "a file"),
    MessageKind::read("value", "a decision, or what another program's card sends"),
    MessageKind::answered("message without any of these", OTHER),
    MessageKind::ignored("command", NOT_OF_TEAMS),
    MessageKind::ignored("commandResult", NOT_OF_TEAMS),
    MessageKind::ignored("contactRelationUpdate", NOT_OF_TEAMS),
    MessageKind::ignored("conversationUpdate", REPORT),
    MessageKind::ignored("deleteUserData", NOT_OF_TEAMS),
    MessageKind::ignored("endOfConversation", REPORT),
    MessageKind::ignored("event", REPORT),
    MessageKind::ignored("handoff", NOT_OF_TEAMS),
    MessageKind::ignored("installationUpdate", REPORT),
    MessageKind::ignored("invoke", "belongs to extensions and dialogs, of which agentd has none"),
    MessageKind::ignored("invokeResponse", NOT_OF_TEAMS),
    MessageKind::ignored("messageDelete", DELETION),
    MessageKind::ignored("messageReaction", REACTION),
    MessageKind::ignored("messageUpdate", EDIT),
    MessageKind::ignored("suggestion", NOT_OF_TEAMS),
    MessageKind::ignored("trace", NOT_OF_TEAMS),
    MessageKind::ignored("typing", REPORT),
];

#[cfg(test)]
mod tests {
    use agentd_testing_chat_platforms::api_description::TEAMS;

    use super::*;

    #[test]
    fn every_type_of_activity_is_in_the_table() {
        for kind in TEAMS.values("Activity", "type") {
            assert!(KINDS.iter().any(|of| of.name == kind), "{kind}");
        }
    }
}
