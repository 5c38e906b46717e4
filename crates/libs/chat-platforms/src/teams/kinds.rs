//! Kinds of Teams activities by type
//! (<https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference>), and of
//! message attachments.

use crate::kinds::{DELETION, EDIT, MessageKind, OTHER, REACTION, REPORT};

const NOT_OF_TEAMS: &str = "not an activity of users in Teams";

/// Activities are listed by type, message parts by field or attachment type.
pub(crate) const KINDS: &[MessageKind] = &[
    MessageKind::read("message", "by the fields below"),
    MessageKind::read("text", "its text, without the mention of the bot"),
    MessageKind::read("text/html", "its text if there is no other, and a quote of the message that is replied to"),
    MessageKind::read("messageReference", "a quote of the message that is replied to"),
    MessageKind::read("forwardedMessageReference", "a quote marked as forwarded"),
    MessageKind::read("application/vnd.microsoft.teams.file.download.info", "a file"),
    MessageKind::read("application/vnd.microsoft.card.*", "a quote of the card's text marked as forwarded"),
    MessageKind::read("application/vnd.microsoft.teams.card.*", "a quote of the card's text marked as forwarded"),
    MessageKind::read("other attachments", "a file"),
    MessageKind::read("value", "an approval decision, or the data of another program's card"),
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
    fn table_contains_every_activity_type() {
        for kind in TEAMS.values("Activity", "type") {
            assert!(KINDS.iter().any(|known| known.name == kind), "{kind}");
        }
    }
}
