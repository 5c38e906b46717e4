//! Kinds of WhatsApp messages by type
//! (<https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages>), and other
//! events sent to the same URL.

use crate::kinds::{DELETION, EDIT, MessageKind, OTHER, REACTION, REPORT};

const FILE: &str = "a file, with its caption";

/// Messages are listed by type, message parts by field.
pub(crate) const KINDS: &[MessageKind] = &[
    MessageKind::read("text", "its text"),
    MessageKind::read("image", FILE),
    MessageKind::read("document", FILE),
    MessageKind::read("audio", FILE),
    MessageKind::read("video", FILE),
    MessageKind::read("sticker", "a file and `[Sticker]`"),
    MessageKind::read("location", "`[Location: Office, 1 Main Street, 52.5, 13.4]`"),
    MessageKind::read("contacts", "`[Contact: Ada Lovelace, +44…]`"),
    MessageKind::read("button", "an approval decision, or the text of another program's button"),
    MessageKind::read("interactive: button_reply", "an approval decision, or the text of another program's button"),
    MessageKind::read("interactive: list_reply", "the text of the choice"),
    MessageKind::read("interactive: nfm_reply", "`[Form: Sent, {…}]`"),
    MessageKind::read("order", "`[Order: 2 × coffee, 4.5 EUR]` and its text"),
    MessageKind::read("context.forwarded, context.frequently_forwarded", "a quote marked as forwarded"),
    MessageKind::read("context.referred_product", "`[Product: coffee]`"),
    MessageKind::read("referral", "`[Advertisement: Coffee, https://…]`"),
    MessageKind::ignored("context.id", "names the message that is replied to without its content"),
    MessageKind::answered("unsupported", OTHER),
    MessageKind::answered("unknown", OTHER),
    MessageKind::answered("other types", OTHER),
    MessageKind::ignored("edit", EDIT),
    MessageKind::ignored("revoke", DELETION),
    MessageKind::ignored("reaction", REACTION),
    MessageKind::ignored("request_welcome", "reports that a chat was opened and contains no message"),
    MessageKind::ignored("system", REPORT),
    MessageKind::ignored("group_id", "agentd does not reply in WhatsApp groups"),
    MessageKind::ignored("statuses", "reports on sent messages; failures become dead letters"),
    MessageKind::ignored("other fields of the webhook", REPORT),
];
