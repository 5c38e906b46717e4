//! Kinds of interaction events, of apps and of Workspace add-ons, and the fields of messages
//! (<https://developers.google.com/workspace/chat/receive-respond-interactions>,
//! <https://developers.google.com/workspace/add-ons/concepts/event-objects#chat-event-object>).

use crate::kinds::{MessageKind, OTHER, REACTION, REPORT};

const METADATA: &str = "metadata of a message";
const CARDS: &str = "only sent by apps";

/// Events are listed by type with the field of an add-on event, message parts by field.
pub(crate) const KINDS: &[MessageKind] = &[
    MessageKind::read("MESSAGE, messagePayload", "by the fields below"),
    MessageKind::read("ADDED_TO_SPACE, addedToSpacePayload", "the message that added the app, if any"),
    MessageKind::read("APP_COMMAND, appCommandPayload", "the text of the command, or `[Command: 1]`"),
    MessageKind::read(
        "CARD_CLICKED, buttonClickedPayload",
        "an approval decision, or `[Button: …]` for a button of another program",
    ),
    MessageKind::ignored("REMOVED_FROM_SPACE, removedFromSpacePayload", REPORT),
    MessageKind::ignored("WIDGET_UPDATED, widgetUpdatedPayload", "agentd sends no forms"),
    MessageKind::ignored("UNSPECIFIED", REPORT),
    MessageKind::read("argumentText", "its text, without the mention of the app"),
    MessageKind::read("text", "its text, if there is no argumentText"),
    MessageKind::read("slashCommand", "its text, with the command"),
    MessageKind::read("attachment", "files"),
    MessageKind::read("attachedGifs", "`[GIF: https://…]`"),
    MessageKind::read("annotations", "`[Link: https://…]` for links that are not in the text"),
    MessageKind::read("quotedMessageMetadata", "a quote marked as reply or forwarded, with its files"),
    MessageKind::answered("message without any of these", OTHER),
    MessageKind::ignored("accessoryWidgets", CARDS),
    MessageKind::ignored("actionResponse", CARDS),
    MessageKind::ignored("cards", CARDS),
    MessageKind::ignored("cardsV2", CARDS),
    MessageKind::ignored("elements", METADATA),
    MessageKind::ignored("clientAssignedMessageId", METADATA),
    MessageKind::ignored("createTime", METADATA),
    MessageKind::ignored("deleteTime", METADATA),
    MessageKind::ignored("deletionMetadata", METADATA),
    MessageKind::ignored("emojiReactionSummaries", REACTION),
    MessageKind::ignored("fallbackText", CARDS),
    MessageKind::ignored("formattedText", "repeats the text"),
    MessageKind::ignored("lastUpdateTime", METADATA),
    MessageKind::ignored("markupSyntax", METADATA),
    MessageKind::ignored("matchedUrl", "is part of the text"),
    MessageKind::ignored("name", METADATA),
    MessageKind::ignored("privateMessageViewer", METADATA),
    MessageKind::ignored("sender", METADATA),
    MessageKind::ignored("silent", METADATA),
    MessageKind::ignored("space", METADATA),
    MessageKind::ignored("thread", METADATA),
    MessageKind::ignored("threadReply", METADATA),
];

#[cfg(test)]
mod tests {
    use agentd_testing_chat_platforms::api_description::GOOGLE_CHAT;

    use super::*;

    #[test]
    fn table_contains_every_event_type_and_message_field() {
        let names: Vec<&str> = KINDS.iter().flat_map(|kind| kind.name.split(", ")).collect();
        for kind in GOOGLE_CHAT.values("DeprecatedEvent", "type").into_iter().chain(GOOGLE_CHAT.properties("Message")) {
            assert!(names.contains(&kind.as_str()), "{kind}");
        }
    }
}
