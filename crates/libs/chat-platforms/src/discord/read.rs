//! Interactions to what came in (<https://docs.discord.com/developers/interactions/receiving-and-responding>).

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

/// How long an interaction takes messages.
const LIFETIME: Duration = Duration::from_secs(15 * 60);
/// The first millisecond of Discord's numbers.
const EPOCH_MS: i64 = 1_420_070_400_000;
const MAX_DEPTH: usize = 4;
/// Kinds of channels and contexts that others than the sender read though they are in no server.
const GROUP_CHANNEL: u64 = 3;
const PRIVATE_CHANNEL_CONTEXT: u64 = 2;

impl Discord {
    /// One interaction, however it came.
    pub(crate) fn read(&self, interaction: &Value, now: Timestamp) -> Received {
        let deferred = |kind: u64| WebhookAnswer::json(&json!({"type": kind}));
        let (answer, incoming) = match interaction["type"].as_u64() {
            Some(1) => (deferred(1), None),
            Some(2) => match self.read_command(interaction, now) {
                Some(message) => (deferred(5), Some(Incoming::Message(message))),
                // Nothing else can end the waiting of who gave it.
                None => (words("This command is not known here."), None),
            },
            Some(3) => (deferred(6), self.read_press(interaction, now).map(incoming_of_press(interaction))),
            Some(4) => (WebhookAnswer::json(&json!({"type": 8, "data": {"choices": []}})), None),
            _ => (words("This is not known here."), None),
        };
        Received { answer, incoming: incoming.into_iter().collect() }
    }

    fn read_command(&self, interaction: &Value, now: Timestamp) -> Option<IncomingMessage> {
        let data = &interaction["data"];
        // Those of menus of messages and of users are of other kinds.
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
        // Menus say what was chosen.
        let pressed = data["values"].get(0).unwrap_or(&data["custom_id"]);
        let chat = chat_of(interaction)?;
        let of = self.interaction(interaction, now)?;
        let message_id = id(&interaction["message"]["id"])?;
        let message = Details {
            interaction: Some(of.clone()),
            message_id: Some(message_id.clone()),
            is_original: true,
            ..Details::default()
        };
        let reply_to = Details { interaction: Some(of), ..Details::default() };
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

    /// `None` for an interaction of another application.
    fn interaction(&self, interaction: &Value, now: Timestamp) -> Option<Interaction> {
        let ours = self.config.application_id.as_ref();
        // Only a missing id counts as ours; one that cannot be read does not.
        let application_id = match interaction.get("application_id") {
            Some(given) => id(given)?,
            None => ours.cloned()?,
        };
        let interaction_token = id(&interaction["token"])?;
        let is_ours = is_snowflake(&application_id) && ours.is_none_or(|ours| *ours == application_id);
        is_ours.then(|| Interaction { interaction_token, application_id, expires_at: now + LIFETIME })
    }
}

/// Only buttons decide. What is chosen from another component, such as a menu, is what the person says.
fn incoming_of_press(interaction: &Value) -> fn(Decision) -> Incoming {
    match interaction["data"]["component_type"].as_u64() {
        None | Some(BUTTON) => Incoming::Decision,
        Some(_) => |press| Incoming::Message(press.into_message()),
    }
}

/// The text on a button or of a choice, anywhere in the components of a message.
fn label_of(components: &Value, pressed: &Value, depth: usize) -> Option<String> {
    let deeper = depth.checked_sub(1)?;
    components.as_array().into_iter().flatten().find_map(|component| {
        let is_it = component["custom_id"] == *pressed || component["value"] == *pressed;
        let own = is_it.then(|| name(&component["label"])).filter(|label| !label.is_empty());
        own.or_else(|| label_of(&component["components"], pressed, deeper))
            .or_else(|| label_of(&component["options"], pressed, deeper))
    })
}

/// Said to the person alone.
fn words(text: &str) -> WebhookAnswer {
    WebhookAnswer::json(&json!({"type": 4, "data": {"content": text, "flags": 64, "allowed_mentions": {"parse": []}}}))
}

/// The values of options, those of subcommands behind the name of theirs; of files it is a number that says nothing.
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

/// In a server it is a member, elsewhere a user.
fn sender(interaction: &Value) -> Option<Sender> {
    let member = &interaction["member"];
    let user = if member["user"].is_object() { &member["user"] } else { &interaction["user"] };
    if user["bot"] == true {
        return None;
    }
    let name = first_name([&member["nick"], &user["global_name"], &user["username"]]);
    Some(Sender { id: id(&user["id"])?, name })
}

/// A thread of Discord is a channel of its own.
fn chat_of(interaction: &Value) -> Option<Chat> {
    let channel = &interaction["channel"];
    let is_group = !interaction["guild_id"].is_null()
        || channel["type"].as_u64() == Some(GROUP_CHANNEL)
        || interaction["context"].as_u64() == Some(PRIVATE_CHANNEL_CONTEXT);
    let id = id(&interaction["channel_id"]).or_else(|| id(&channel["id"]))?;
    is_snowflake(&id).then_some(Chat { id, thread: None, is_group })
}

/// A number of Discord begins with the time.
pub(super) fn time_of(id: &str) -> Option<Timestamp> {
    let ms = i64::try_from(id.parse::<u64>().ok()? >> 22).ok()?;
    Some(Timestamp::from_micros(ms.checked_add(EPOCH_MS)?.checked_mul(1000)?))
}
