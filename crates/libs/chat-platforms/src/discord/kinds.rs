//! Kinds of Discord messages by type and contents
//! (<https://docs.discord.com/developers/resources/message#message-object>), and of interactions.

use crate::kinds::{DELETION, EDIT, Handling, MessageKind, OTHER, REACTION, REPORT};

/// Message types are listed by number and name, message parts by field.
pub(crate) const KINDS: &[MessageKind] = &[
    MessageKind::read("0 DEFAULT", "by the fields below"),
    MessageKind::read("19 REPLY", "by the fields below"),
    MessageKind::read("content", "its text"),
    MessageKind::read("attachments", "files"),
    MessageKind::read("sticker_items", "`[Sticker: Wave]`"),
    MessageKind::read("poll", "`[Poll: Where to eat?, 1) Sushi, 2) Pizza]`"),
    MessageKind::read("message_snapshots", "a quote marked as forwarded, with its files"),
    MessageKind::read("referenced_message", "a quote of the message that is replied to"),
    MessageKind::ignored("embeds", "previews of links in the text; read in forwarded messages"),
    MessageKind::answered("activity", "invitations"),
    MessageKind::answered("shared_client_theme", "shared themes"),
    MessageKind::answered("message without any of these", OTHER),
    MessageKind::ignored("webhook_id", "messages of programs are never answered"),
    MessageKind::ignored("1 RECIPIENT_ADD", REPORT),
    MessageKind::ignored("2 RECIPIENT_REMOVE", REPORT),
    MessageKind::ignored("3 CALL", REPORT),
    MessageKind::ignored("4 CHANNEL_NAME_CHANGE", REPORT),
    MessageKind::ignored("5 CHANNEL_ICON_CHANGE", REPORT),
    MessageKind::ignored("6 CHANNEL_PINNED_MESSAGE", REPORT),
    MessageKind::ignored("7 USER_JOIN", REPORT),
    MessageKind::ignored("8 GUILD_BOOST", REPORT),
    MessageKind::ignored("9 GUILD_BOOST_TIER_1", REPORT),
    MessageKind::ignored("10 GUILD_BOOST_TIER_2", REPORT),
    MessageKind::ignored("11 GUILD_BOOST_TIER_3", REPORT),
    MessageKind::ignored("12 CHANNEL_FOLLOW_ADD", REPORT),
    MessageKind::ignored("14 GUILD_DISCOVERY_DISQUALIFIED", REPORT),
    MessageKind::ignored("15 GUILD_DISCOVERY_REQUALIFIED", REPORT),
    MessageKind::ignored("16 GUILD_DISCOVERY_GRACE_PERIOD_INITIAL_WARNING", REPORT),
    MessageKind::ignored("17 GUILD_DISCOVERY_GRACE_PERIOD_FINAL_WARNING", REPORT),
    MessageKind::ignored("18 THREAD_CREATED", REPORT),
    MessageKind::ignored("20 CHAT_INPUT_COMMAND", "the command arrives as an interaction"),
    MessageKind::ignored("21 THREAD_STARTER_MESSAGE", "repeats a message of the channel"),
    MessageKind::ignored("22 GUILD_INVITE_REMINDER", REPORT),
    MessageKind::ignored("23 CONTEXT_MENU_COMMAND", "the command arrives as an interaction"),
    MessageKind::ignored("24 AUTO_MODERATION_ACTION", REPORT),
    MessageKind::ignored("25 ROLE_SUBSCRIPTION_PURCHASE", REPORT),
    MessageKind::ignored("26 INTERACTION_PREMIUM_UPSELL", REPORT),
    MessageKind::ignored("27 STAGE_START", REPORT),
    MessageKind::ignored("28 STAGE_END", REPORT),
    MessageKind::ignored("29 STAGE_SPEAKER", REPORT),
    MessageKind::ignored("30 STAGE_RAISE_HAND", REPORT),
    MessageKind::ignored("31 STAGE_TOPIC", REPORT),
    MessageKind::ignored("32 GUILD_APPLICATION_PREMIUM_SUBSCRIPTION", REPORT),
    MessageKind::ignored("36 GUILD_INCIDENT_ALERT_MODE_ENABLED", REPORT),
    MessageKind::ignored("37 GUILD_INCIDENT_ALERT_MODE_DISABLED", REPORT),
    MessageKind::ignored("38 GUILD_INCIDENT_REPORT_RAID", REPORT),
    MessageKind::ignored("39 GUILD_INCIDENT_REPORT_FALSE_ALARM", REPORT),
    MessageKind::ignored("44 PURCHASE_NOTIFICATION", REPORT),
    MessageKind::ignored("46 POLL_RESULT", REPORT),
    MessageKind::ignored("MESSAGE_UPDATE", EDIT),
    MessageKind::ignored("MESSAGE_DELETE", DELETION),
    MessageKind::ignored("MESSAGE_REACTION_ADD, MESSAGE_REACTION_REMOVE", REACTION),
    MessageKind::ignored("other events of the Gateway", REPORT),
    MessageKind::ignored("interaction 1 PING", "Discord's check of the address, which is answered"),
    MessageKind::read("interaction 2 APPLICATION_COMMAND", "the text and the file of the command"),
    MessageKind::read(
        "interaction 3 MESSAGE_COMPONENT",
        "an approval decision, or the text of another program's button",
    ),
    MessageKind::ignored("interaction 4 APPLICATION_COMMAND_AUTOCOMPLETE", "commands have no completions"),
    MessageKind::ignored("interaction 5 MODAL_SUBMIT", "agentd opens no forms; the user is notified"),
];

/// Whether messages of this type are written by users.
pub(super) fn is_user_message(number: u64) -> bool {
    let is_named = |kind: &&MessageKind| kind.name.split_once(' ').is_some_and(|(of, _)| of == number.to_string());
    KINDS.iter().find(is_named).is_some_and(|kind| matches!(kind.handling, Handling::Read(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_replies_are_user_messages() {
        assert_eq!((0..200).filter(|number| is_user_message(*number)).collect::<Vec<_>>(), [0, 19]);
    }
}
