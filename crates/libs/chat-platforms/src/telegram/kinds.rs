//! Kinds of Telegram messages by field, and of updates
//! (<https://core.telegram.org/bots/api#message>, <https://core.telegram.org/bots/api#update>).

use crate::kinds::{EDIT, MessageKind, REACTION, REPORT};

const FILE: &str = "a file";
const STORIES: &str = "stories";
const GIFTS: &str = "gifts";
const GIVEAWAYS: &str = "giveaways";
const PAYMENT: &str = "reports a payment; agentd sells nothing";
const BUSINESS: &str = "agentd does not act for business accounts";
const POLL: &str = "agentd sends no polls";
const INLINE: &str = "agentd has no inline mode";
const SUGGESTED_POST: &str = "agentd suggests no posts";

/// Every message field with contents, and every kind of update.
pub(crate) const KINDS: &[MessageKind] = &[
    MessageKind::read("text", "its text; the address of a link follows its label"),
    MessageKind::read("caption", "its text"),
    MessageKind::read("rich_message", "its text"),
    MessageKind::read("photo", FILE),
    MessageKind::read("live_photo", FILE),
    MessageKind::read("animation", FILE),
    MessageKind::read("audio", FILE),
    MessageKind::read("document", FILE),
    MessageKind::read("video", FILE),
    MessageKind::read("video_note", FILE),
    MessageKind::read("voice", FILE),
    MessageKind::read("sticker", "a file and `[Sticker: 🎉]`"),
    MessageKind::read("media_group_id", "all files of the album in one message"),
    MessageKind::read("contact", "`[Contact: Ada Lovelace, +44…]`"),
    MessageKind::read("location", "`[Location: 52.5, 13.4]`"),
    MessageKind::read("venue", "`[Location: Office, 1 Main Street, 52.5, 13.4]`"),
    MessageKind::read("poll", "`[Poll: Where to eat?, 1) Sushi, 2) Pizza]`"),
    MessageKind::read("checklist", "`[Checklist: Trip, ☑ Tickets, ☐ Hotel]`"),
    MessageKind::read("dice", "`[Dice: 🎲 4]`"),
    MessageKind::read("game", "`[Game: Chess, A game]`"),
    MessageKind::read("web_app_data", "`[Web app data: Order, 2 pizzas]`"),
    MessageKind::read("forward_origin", "a quote marked as forwarded"),
    MessageKind::read("reply_to_message", "a quote of the message that is replied to"),
    MessageKind::read("quote", "the selected part of the message that is replied to"),
    MessageKind::read("external_reply", "a quote of the message that is replied to"),
    MessageKind::answered("story", STORIES),
    MessageKind::answered("reply_to_story", STORIES),
    MessageKind::answered("paid_media", "paid media"),
    MessageKind::answered("invoice", "invoices"),
    MessageKind::answered("giveaway", GIVEAWAYS),
    MessageKind::answered("giveaway_winners", GIVEAWAYS),
    MessageKind::answered("gift", GIFTS),
    MessageKind::answered("unique_gift", GIFTS),
    MessageKind::answered("gift_upgrade_sent", GIFTS),
    MessageKind::answered("users_shared", "shared users"),
    MessageKind::answered("chat_shared", "shared chats"),
    MessageKind::answered("passport_data", "Telegram Passport data"),
    MessageKind::ignored("sender_chat", "written on behalf of a chat, without an author"),
    MessageKind::ignored("boost_added", REPORT),
    MessageKind::ignored("channel_chat_created", REPORT),
    MessageKind::ignored("chat_background_set", REPORT),
    MessageKind::ignored("chat_owner_changed", REPORT),
    MessageKind::ignored("chat_owner_left", REPORT),
    MessageKind::ignored("checklist_tasks_added", REPORT),
    MessageKind::ignored("checklist_tasks_done", REPORT),
    MessageKind::ignored("community_chat_added", REPORT),
    MessageKind::ignored("community_chat_joined", REPORT),
    MessageKind::ignored("community_chat_removed", REPORT),
    MessageKind::ignored("connected_website", REPORT),
    MessageKind::ignored("delete_chat_photo", REPORT),
    MessageKind::ignored("direct_message_price_changed", REPORT),
    MessageKind::ignored("forum_topic_closed", REPORT),
    MessageKind::ignored("forum_topic_created", REPORT),
    MessageKind::ignored("forum_topic_edited", REPORT),
    MessageKind::ignored("forum_topic_reopened", REPORT),
    MessageKind::ignored("general_forum_topic_hidden", REPORT),
    MessageKind::ignored("general_forum_topic_unhidden", REPORT),
    MessageKind::ignored("giveaway_completed", REPORT),
    MessageKind::ignored("giveaway_created", REPORT),
    MessageKind::ignored("group_chat_created", REPORT),
    MessageKind::ignored("left_chat_member", REPORT),
    MessageKind::ignored("managed_bot_created", REPORT),
    MessageKind::ignored("message_auto_delete_timer_changed", REPORT),
    MessageKind::ignored("migrate_from_chat_id", REPORT),
    MessageKind::ignored("migrate_to_chat_id", REPORT),
    MessageKind::ignored("new_chat_members", REPORT),
    MessageKind::ignored("new_chat_photo", REPORT),
    MessageKind::ignored("new_chat_title", REPORT),
    MessageKind::ignored("paid_message_price_changed", REPORT),
    MessageKind::ignored("pinned_message", REPORT),
    MessageKind::ignored("poll_option_added", POLL),
    MessageKind::ignored("poll_option_deleted", POLL),
    MessageKind::ignored("proximity_alert_triggered", REPORT),
    MessageKind::ignored("refunded_payment", PAYMENT),
    MessageKind::ignored("successful_payment", PAYMENT),
    MessageKind::ignored("suggested_post_approval_failed", SUGGESTED_POST),
    MessageKind::ignored("suggested_post_approved", SUGGESTED_POST),
    MessageKind::ignored("suggested_post_declined", SUGGESTED_POST),
    MessageKind::ignored("suggested_post_paid", SUGGESTED_POST),
    MessageKind::ignored("suggested_post_refunded", SUGGESTED_POST),
    MessageKind::ignored("supergroup_chat_created", REPORT),
    MessageKind::ignored("video_chat_ended", REPORT),
    MessageKind::ignored("video_chat_participants_invited", REPORT),
    MessageKind::ignored("video_chat_scheduled", REPORT),
    MessageKind::ignored("video_chat_started", REPORT),
    MessageKind::ignored("write_access_allowed", REPORT),
    MessageKind::read("Update.message", "by the fields above"),
    MessageKind::read("Update.callback_query", "an approval decision, or the text of another program's button"),
    MessageKind::ignored("Update.business_connection", BUSINESS),
    MessageKind::ignored("Update.business_message", BUSINESS),
    MessageKind::ignored("Update.deleted_business_messages", BUSINESS),
    MessageKind::ignored("Update.edited_business_message", BUSINESS),
    MessageKind::ignored("Update.channel_post", "has no author"),
    MessageKind::ignored("Update.edited_channel_post", EDIT),
    MessageKind::ignored("Update.edited_message", EDIT),
    MessageKind::ignored("Update.chat_boost", REPORT),
    MessageKind::ignored("Update.removed_chat_boost", REPORT),
    MessageKind::ignored("Update.chat_join_request", REPORT),
    MessageKind::ignored("Update.chat_member", REPORT),
    MessageKind::ignored("Update.my_chat_member", REPORT),
    MessageKind::ignored("Update.chosen_inline_result", INLINE),
    MessageKind::ignored("Update.inline_query", INLINE),
    MessageKind::ignored("Update.guest_message", "agentd only replies in chats of which the bot is a member"),
    MessageKind::ignored("Update.managed_bot", "agentd manages no bots"),
    MessageKind::ignored("Update.message_reaction", REACTION),
    MessageKind::ignored("Update.message_reaction_count", REACTION),
    MessageKind::ignored("Update.poll", POLL),
    MessageKind::ignored("Update.poll_answer", POLL),
    MessageKind::ignored("Update.pre_checkout_query", PAYMENT),
    MessageKind::ignored("Update.shipping_query", PAYMENT),
    MessageKind::ignored("Update.purchased_paid_media", PAYMENT),
    MessageKind::ignored("Update.subscription", PAYMENT),
    MessageKind::ignored("Update.stopped_message_generation", "agentd streams no message"),
];

#[cfg(test)]
mod tests {
    use agentd_testing_chat_platforms::api_description::TELEGRAM;

    use super::*;

    /// Message fields with metadata rather than contents.
    const METADATA: &[&str] = &[
        "author_signature",
        "business_connection_id",
        "caption_entities",
        "chat",
        "date",
        "direct_messages_topic",
        "edit_date",
        "effect_id",
        "entities",
        "ephemeral_message_id",
        "from",
        "guest_bot_caller_chat",
        "guest_bot_caller_user",
        "guest_query_id",
        "has_media_spoiler",
        "has_protected_content",
        "is_automatic_forward",
        "is_from_offline",
        "is_paid_post",
        "is_topic_message",
        "link_preview_options",
        "message_id",
        "message_thread_id",
        "paid_star_count",
        "receiver_user",
        "reply_markup",
        "reply_to_checklist_task_id",
        "reply_to_poll_option_id",
        "sender_boost_count",
        "sender_business_bot",
        "sender_tag",
        "show_caption_above_media",
        "suggested_post_info",
        "via_bot",
    ];

    #[test]
    fn table_contains_every_field_and_update_of_the_api() {
        let fields = TELEGRAM.properties("Message").into_iter().filter(|field| !METADATA.contains(&field.as_str()));
        let updates = TELEGRAM.properties("Update").into_iter().filter(|field| field != "update_id");
        let mut expected: Vec<String> = fields.chain(updates.map(|kind| format!("Update.{kind}"))).collect();
        let mut named: Vec<String> = KINDS.iter().map(|kind| kind.name.to_owned()).collect();
        expected.sort();
        named.sort();
        assert_eq!(named, expected);
    }
}
