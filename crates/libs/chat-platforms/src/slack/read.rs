//! Conversion of events and button presses to incoming messages (<https://docs.slack.dev/apis/events-api>).

use agentd_base::Timestamp;
use serde_json::{Value, json};

use super::blocks::{add_attachments, blocks_text};
use super::files::attachment;
use super::kinds::KINDS;
use super::{Slack, text};
use crate::content::{Content, Parts, mention_alone};
use crate::incoming_text::{button_data, first_name, id, text as clean};
use crate::kinds::{Handling, OTHER, handling};
use crate::message::{Chat, Decision, Incoming, IncomingMessage, Sender};
use crate::outgoing::Address;
use crate::webhook::{Received, WebhookAnswer};

/// User ID of Slackbot, which is not marked as a bot.
const SLACKBOT: &str = "USLACKBOT";

impl Slack {
    /// Reads a payload: the body of a verified request, or a payload from a socket.
    #[must_use]
    pub fn read(&self, payload: &Value) -> Received {
        let mut answer = WebhookAnswer::empty();
        let incoming = match payload["type"].as_str() {
            Some("url_verification") => {
                answer = WebhookAnswer::text(payload["challenge"].as_str().unwrap_or_default().to_owned());
                Vec::new()
            }
            Some("event_callback") => self.read_event(payload).map(Incoming::Message).into_iter().collect(),
            Some("block_actions") => read_actions(payload),
            Some("app_rate_limited") => {
                tracing::warn!("Slack event rate limit reached; events are being dropped");
                Vec::new()
            }
            _ => Vec::new(),
        };
        Received { answer, incoming }
    }

    fn read_event(&self, payload: &Value) -> Option<IncomingMessage> {
        let event = &payload["event"];
        let is_mention = match event["type"].as_str()? {
            "message" => false,
            "app_mention" => true,
            _ => return None,
        };
        let is_read = |subtype: &Value| {
            subtype.as_str().is_none_or(|name| matches!(handling(KINDS, name), Some(Handling::Read(_))))
        };
        if !is_read(&event["subtype"]) || !event["bot_id"].is_null() {
            return None;
        }
        let (user, channel, ts) = (id(&event["user"])?, id(&event["channel"])?, id(&event["ts"])?);
        let known = self.bot_user.lock().clone();
        let own = own_users(payload, known.as_deref());
        if user == SLACKBOT || own.contains(&user.as_str()) {
            return None;
        }
        let (content, names_bot) = content(event, &own, is_mention);
        let unreadable = content.is_empty().then_some(OTHER);
        let Parts { text, context, attachments } = content.into_parts();
        let kind = event["channel_type"].as_str().unwrap_or(if channel.starts_with('D') { "im" } else { "channel" });
        let is_answer = event["parent_user_id"].as_str().is_some_and(|parent| own.contains(&parent));
        // In channels the reply starts a thread, so the message counts as its start.
        let begins_thread = !matches!(kind, "im" | "mpim");
        let chat = Chat {
            thread: id(&event["thread_ts"]).or_else(|| begins_thread.then(|| ts.clone())),
            is_group: kind != "im",
            id: channel,
        };
        let profile = &event["user_profile"];
        let name = first_name([&profile["display_name"], &profile["real_name"]]);
        Some(IncomingMessage {
            id: format!("{}:{ts}", chat.id),
            sender: Sender { id: user, name },
            is_addressed: !chat.is_group || is_mention || names_bot || is_answer,
            text,
            context,
            attachments,
            album: None,
            unreadable,
            sent_at: time_of(&ts),
            reply_to: address_of(&chat, Value::Null),
            chat,
        })
    }
}

/// Returns the contents, and whether they mention one of the `own` users.
fn content(event: &Value, own: &[&str], is_mention: bool) -> (Content, bool) {
    let mut content = Content::default();
    let (text, names_bot) = text::to_plain_text(&clean(event["text"].as_str().unwrap_or_default()), own);
    content.add_text(&text);
    // The text duplicates the rich text.
    let has_text = event["text"].as_str().is_some_and(|text| !text.trim().is_empty());
    let (text, is_named_in_blocks) = blocks_text(&event["blocks"], own, !has_text);
    content.add_text(&text);
    content.attach(event["files"].as_array().into_iter().flatten().map(attachment));
    add_attachments(&event["attachments"], &mut content);
    let is_mentioned = names_bot || is_named_in_blocks;
    if (is_mentioned || is_mention) && content.is_empty() {
        content.add_text(&mention_alone());
    }
    (content, is_mentioned)
}

/// Returns the user IDs of the app. An authorization of a user rather than a bot is skipped.
fn own_users<'a>(payload: &'a Value, known: Option<&'a str>) -> Vec<&'a str> {
    let authorizations = payload["authorizations"].as_array().into_iter().flatten();
    let bots = authorizations.filter(|authorization| authorization["is_bot"] != false);
    bots.filter_map(|authorization| authorization["user_id"].as_str()).chain(known).collect()
}

fn address_of(chat: &Chat, details: Value) -> Address {
    Address { channel: chat.id.clone(), thread: chat.thread.clone(), details }
}

/// Parses a `ts` such as `1795600000.000100`: seconds, and a counter treated as microseconds.
fn time_of(ts: &str) -> Option<Timestamp> {
    let (seconds, rest) = ts.split_once('.').unwrap_or((ts, "0"));
    let (seconds, micros): (i64, i64) = (seconds.parse().ok()?, rest.parse().ok()?);
    Some(Timestamp::from_micros(seconds.checked_mul(1_000_000)?.checked_add(micros)?))
}

fn read_actions(payload: &Value) -> Vec<Incoming> {
    let actions = payload["actions"].as_array().into_iter().flatten();
    actions.filter_map(|action| read_action(payload, action)).map(Incoming::Decision).collect()
}

fn read_action(payload: &Value, action: &Value) -> Option<Decision> {
    let (container, message, user) = (&payload["container"], &payload["message"], &payload["user"]);
    let channel = id(&payload["channel"]["id"]).or_else(|| id(&container["channel_id"]))?;
    let ts = id(&message["ts"]).or_else(|| id(&container["message_ts"]))?;
    let user_id = id(&user["id"])?;
    let is_direct = channel.starts_with('D');
    let thread = id(&message["thread_ts"]).or_else(|| id(&container["thread_ts"]));
    let chat = Chat { thread: thread.or_else(|| (!is_direct).then(|| ts.clone())), is_group: !is_direct, id: channel };
    let chosen = &action["selected_option"];
    let data = [&action["value"], &chosen["value"], &action["action_id"]].into_iter().find_map(button_data)?;
    Some(Decision {
        // `action_ts` is the time of the press, which distinguishes repeated presses.
        id: format!("{}:{ts}:{}:{user_id}", chat.id, id(&action["action_ts"])?),
        sender: Sender { id: user_id, name: first_name([&user["name"], &user["username"]]) },
        data,
        message_id: format!("{}:{ts}", chat.id),
        label: first_name([&chosen["text"]["text"], &action["text"]["text"]]),
        message: address_of(&chat, json!({"ts": ts})),
        reply_to: address_of(&chat, Value::Null),
        chat,
    })
}
