//! Conversion of interactions to incoming messages
//! (<https://docs.discord.com/developers/interactions/receiving-and-responding>).

use std::time::Duration;

use agentd_base::Timestamp;
use serde_json::{Value, json};

use super::Discord;
use super::commands::{ASK, FILE};
use super::details::{Details, Interaction, is_snowflake};
use super::files::attachment;
use super::send::BUTTON;
use crate::incoming_text::{button_data, first_name, id, name, text as clean};
use crate::message::{Attachment, Chat, Decision, Incoming, IncomingMessage, Sender};
use crate::outgoing::Address;
use crate::webhook::{Received, WebhookAnswer};

/// Time in which an interaction accepts messages.
const INTERACTION_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Epoch of Discord IDs in Unix milliseconds.
const EPOCH_MS: i64 = 1_420_070_400_000;
const MAX_DEPTH: usize = 4;
/// Channel types and contexts outside servers that users other than the sender can read.
const GROUP_CHANNEL: u64 = 3;
const PRIVATE_CHANNEL_CONTEXT: u64 = 2;

impl Discord {
    /// Reads an interaction from a webhook or the Gateway.
    pub(crate) fn read(&self, interaction: &Value, now: Timestamp) -> Received {
        let deferred = |kind: u64| WebhookAnswer::json(&json!({"type": kind}));
        let (answer, incoming) = match interaction["type"].as_u64() {
            Some(1) => (deferred(1), None),
            Some(2) => match self.read_command(interaction, now) {
                Some(message) => (deferred(5), Some(Incoming::Message(message))),
                // The user would otherwise see a failed command.
                None => (ephemeral("Unknown command."), None),
            },
            Some(3) => (deferred(6), self.read_press(interaction, now).map(incoming_of_press(interaction))),
            Some(4) => (WebhookAnswer::json(&json!({"type": 8, "data": {"choices": []}})), None),
            _ => (ephemeral("Unsupported interaction."), None),
        };
        Received { answer, incoming: incoming.into_iter().collect() }
    }

    fn read_command(&self, interaction: &Value, now: Timestamp) -> Option<IncomingMessage> {
        let data = &interaction["data"];
        // Message and user commands have other types.
        if data["type"].as_u64().is_some_and(|kind| kind != 1) {
            return None;
        }
        let mut words = Vec::new();
        match name(&data["name"]) {
            none if none.is_empty() => return None,
            ask if ask == ASK => {}
            other => words.push(format!("/{other}")),
        }
        join_options(&data["options"], MAX_DEPTH, &mut words);
        let text = clean(&words.join(" "));
        let files = data["resolved"]["attachments"].as_object().into_iter().flatten();
        let attachments: Vec<Attachment> = files.map(|(_, file)| attachment(file)).collect();
        if text.is_empty() && attachments.is_empty() {
            return None;
        }
        let id = id(&interaction["id"])?;
        let chat = chat_of(interaction)?;
        let details = Details { interaction: Some(self.interaction(interaction, now)?), ..Details::default() };
        Some(IncomingMessage {
            sent_at: time_of(&id),
            id,
            sender: sender(interaction)?,
            is_addressed: true,
            text,
            context: String::new(),
            attachments,
            album: None,
            unreadable: None,
            reply_to: Address { details: details.to_value(), ..Address::of_channel(&chat.id) },
            chat,
        })
    }

    fn read_press(&self, interaction: &Value, now: Timestamp) -> Option<Decision> {
        let data = &interaction["data"];
        // Select menus contain the selected values.
        let pressed = data["values"].get(0).unwrap_or(&data["custom_id"]);
        let chat = chat_of(interaction)?;
        let interaction_context = self.interaction(interaction, now)?;
        let message_id = id(&interaction["message"]["id"])?;
        let message = Details {
            interaction: Some(interaction_context.clone()),
            message_id: Some(message_id.clone()),
            is_original: true,
            ..Details::default()
        };
        let reply_to = Details { interaction: Some(interaction_context), ..Details::default() };
        Some(Decision {
            id: id(&interaction["id"])?,
            sender: sender(interaction)?,
            data: button_data(pressed)?,
            message_id,
            label: label_of(&interaction["message"]["components"], pressed, MAX_DEPTH).unwrap_or_default(),
            message: Address { details: message.to_value(), ..Address::of_channel(&chat.id) },
            reply_to: Address { details: reply_to.to_value(), ..Address::of_channel(&chat.id) },
            chat,
        })
    }

    /// Returns `None` for an interaction of another application.
    fn interaction(&self, interaction: &Value, now: Timestamp) -> Option<Interaction> {
        let ours = self.config.application_id.as_ref();
        // A missing ID is accepted, a malformed one is not.
        let application_id = match interaction.get("application_id") {
            Some(given) => id(given)?,
            None => ours.cloned()?,
        };
        let interaction_token = id(&interaction["token"])?;
        let is_ours = is_snowflake(&application_id) && ours.is_none_or(|ours| *ours == application_id);
        is_ours.then(|| Interaction { interaction_token, application_id, expires_at: now + INTERACTION_LIFETIME })
    }
}

/// Returns the constructor for a component: only buttons are decisions. A selection in a menu is a message.
fn incoming_of_press(interaction: &Value) -> fn(Decision) -> Incoming {
    match interaction["data"]["component_type"].as_u64() {
        None | Some(BUTTON) => Incoming::Decision,
        Some(_) => |press| Incoming::Message(press.into_message()),
    }
}

/// Returns the label of a button or option, searched in all components of a message.
fn label_of(components: &Value, pressed: &Value, depth: usize) -> Option<String> {
    let remaining_depth = depth.checked_sub(1)?;
    components.as_array().into_iter().flatten().find_map(|component| {
        let is_it = component["custom_id"] == *pressed || component["value"] == *pressed;
        let own = is_it.then(|| name(&component["label"])).filter(|label| !label.is_empty());
        own.or_else(|| label_of(&component["components"], pressed, remaining_depth))
            .or_else(|| label_of(&component["options"], pressed, remaining_depth))
    })
}

/// Returns an ephemeral response, visible only to the user.
fn ephemeral(text: &str) -> WebhookAnswer {
    WebhookAnswer::json(&json!({"type": 4, "data": {"content": text, "flags": 64, "allowed_mentions": {"parse": []}}}))
}

/// Collects option values, including those of subcommands after the name. A file option contains only an ID and is
/// skipped.
fn join_options(options: &Value, depth: usize, words: &mut Vec<String>) {
    for option in options.as_array().into_iter().flatten() {
        match &option["value"] {
            Value::String(_) if option["type"] == FILE => {}
            Value::String(text) => words.push(text.clone()),
            Value::Null if depth > 0 => {
                words.push(name(&option["name"]));
                join_options(&option["options"], depth - 1, words);
            }
            value @ (Value::Bool(_) | Value::Number(_)) => words.push(value.to_string()),
            _ => {}
        }
    }
}

/// Returns the sender: a member in a server, otherwise a user.
fn sender(interaction: &Value) -> Option<Sender> {
    let member = &interaction["member"];
    let user = if member["user"].is_object() { &member["user"] } else { &interaction["user"] };
    if user["bot"] == true {
        return None;
    }
    let name = first_name([&member["nick"], &user["global_name"], &user["username"]]);
    Some(Sender { id: id(&user["id"])?, name })
}

/// Returns the chat. A thread is a separate channel in Discord.
fn chat_of(interaction: &Value) -> Option<Chat> {
    let channel = &interaction["channel"];
    let is_group = !interaction["guild_id"].is_null()
        || channel["type"].as_u64() == Some(GROUP_CHANNEL)
        || interaction["context"].as_u64() == Some(PRIVATE_CHANNEL_CONTEXT);
    let id = id(&interaction["channel_id"]).or_else(|| id(&channel["id"]))?;
    is_snowflake(&id).then_some(Chat { id, thread: None, is_group })
}

/// Returns the creation time encoded in a Discord ID.
pub(super) fn time_of(id: &str) -> Option<Timestamp> {
    let ms = i64::try_from(id.parse::<u64>().ok()? >> 22).ok()?;
    Some(Timestamp::from_micros(ms.checked_add(EPOCH_MS)?.checked_mul(1000)?))
}
