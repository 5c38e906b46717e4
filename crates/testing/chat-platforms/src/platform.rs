//! Common interface of all fakes: daemon settings, signed incoming messages, and sent messages.

use std::io;

use agentd_base::{Clock, Secret, Timestamp};
use agentd_chat_platforms::{Platform, WebhookRequest};
use http::HeaderValue;
use serde_json::{Value, json};
use url::Url;

use crate::discord::{APPLICATION_ID, FakeDiscord};
use crate::google_chat::FakeGoogleChat;
use crate::request::RequestExt as _;
use crate::slack::FakeSlack;
use crate::teams::FakeTeams;
use crate::telegram::FakeTelegram;
use crate::whatsapp::FakeWhatsapp;

const BOT_TOKEN: &str = "123456:fake-bot-token";
const SHARED_SECRET: &str = "fake-shared-secret-of-requests";
/// Headers with the signature or secret of a request.
const SIGNATURE_HEADERS: [&str; 5] = [
    "x-signature-ed25519",
    "authorization",
    "x-slack-signature",
    "x-telegram-bot-api-secret-token",
    "x-hub-signature-256",
];

/// Message of a user. Each chat number is a direct chat with a different user.
#[derive(Debug, Clone, Copy)]
pub struct FakeMessage<'a> {
    pub chat: u32,
    /// Message number; equal numbers have equal IDs.
    pub number: u32,
    pub text: &'a str,
}

/// Button press.
#[derive(Debug, Clone, Copy)]
pub struct FakePress<'a> {
    pub chat: u32,
    /// Number of the direct chat of the user who presses it.
    pub sender: u32,
    /// Number of the press, from which its ID is derived.
    pub number: u32,
    /// ID of the message with the button.
    pub message_id: &'a str,
    pub data: &'a str,
}

/// Running fake of any platform, which stops when dropped.
#[derive(Debug)]
pub enum FakePlatform {
    Discord(FakeDiscord),
    Slack(FakeSlack),
    Telegram(FakeTelegram),
    Whatsapp(FakeWhatsapp),
    Teams(FakeTeams),
    GoogleChat(FakeGoogleChat),
}

impl FakePlatform {
    /// Starts the fake on a loopback port.
    ///
    /// # Errors
    /// Binding a loopback port fails.
    pub async fn start(platform: Platform, clock: Clock) -> io::Result<Self> {
        Ok(match platform {
            Platform::Discord => Self::Discord(FakeDiscord::start(BOT_TOKEN).await?),
            Platform::Slack => Self::Slack(FakeSlack::start(BOT_TOKEN, "xapp-fake", SHARED_SECRET).await?),
            Platform::Telegram => Self::Telegram(FakeTelegram::start(BOT_TOKEN, SHARED_SECRET).await?),
            Platform::Whatsapp => Self::Whatsapp(FakeWhatsapp::start().await?),
            Platform::Teams => Self::Teams(FakeTeams::start(clock).await?),
            Platform::GoogleChat => Self::GoogleChat(FakeGoogleChat::start(clock).await?),
        })
    }

    #[must_use]
    pub fn platform(&self) -> Platform {
        match self {
            Self::Discord(_) => Platform::Discord,
            Self::Slack(_) => Platform::Slack,
            Self::Telegram(_) => Platform::Telegram,
            Self::Whatsapp(_) => Platform::Whatsapp,
            Self::Teams(_) => Platform::Teams,
            Self::GoogleChat(_) => Platform::GoogleChat,
        }
    }

    /// Returns the daemon settings for this fake: secrets and URLs.
    #[must_use]
    pub fn settings(&self) -> Value {
        match self {
            Self::Discord(fake) => json!({
                "api_base_url": fake.base_url().as_str(), "application_id": APPLICATION_ID, "public_key": fake.public_key(),
                "bot_token": BOT_TOKEN,
            }),
            Self::Slack(fake) => json!({
                "api_base_url": fake.base_url().as_str(), "signing_secret": SHARED_SECRET, "bot_token": BOT_TOKEN,
            }),
            Self::Telegram(fake) => json!({
                "api_base_url": fake.base_url().as_str(), "bot_token": BOT_TOKEN, "secret_token": SHARED_SECRET,
            }),
            Self::Whatsapp(fake) => {
                let config = fake.config();
                json!({
                    "api_base_url": text(config.api_base_url), "app_secret": exposed(config.app_secret),
                    "verify_token": exposed(config.verify_token), "access_token": exposed(config.access_token),
                    "phone_number_id": config.phone_number_id,
                })
            }
            Self::Teams(fake) => {
                let config = fake.config();
                json!({
                    "api_base_url": text(config.api_base_url), "login_base_url": text(config.login_base_url),
                    "keys_url": text(config.keys_url), "app_id": config.app_id,
                    "app_password": exposed(config.app_password), "tenant_id": config.tenant_id,
                })
            }
            Self::GoogleChat(fake) => {
                let config = fake.config();
                json!({
                    "api_base_url": text(config.api_base_url), "token_url": text(config.token_url),
                    "keys_url": text(config.keys_url), "audience": config.audience,
                    "service_account": exposed(config.service_account),
                })
            }
        }
    }

    /// Returns the user ID of a direct chat.
    #[must_use]
    pub fn sender_id(&self, number: u32) -> String {
        match self {
            Self::Discord(_) | Self::Telegram(_) | Self::Teams(_) => number.to_string(),
            Self::Slack(_) => format!("U{number}"),
            Self::Whatsapp(_) => format!("4917{number:08}"),
            Self::GoogleChat(_) => format!("users/{number}"),
        }
    }

    /// Returns a message as sent by the platform at this time.
    #[must_use]
    pub fn message(&self, message: &FakeMessage<'_>, now: Timestamp) -> WebhookRequest {
        self.message_by(message.chat, message, now)
    }

    /// Returns a message written by the user of another direct chat. WhatsApp has only direct chats.
    #[must_use]
    pub fn message_by(&self, sender: u32, message: &FakeMessage<'_>, now: Timestamp) -> WebhookRequest {
        let FakeMessage { chat, number, text } = *message;
        let sender_id = self.sender_id(sender);
        match self {
            Self::Discord(fake) => fake.message_in(&snowflake(number), &sender_id, &discord_channel(chat), text, now),
            Self::Slack(fake) => {
                let event = json!({
                    "type": "message", "channel": format!("D{chat}"), "channel_type": "im",
                    "user": sender_id, "text": text, "ts": format!("1795600000.{number:06}"),
                });
                fake.event(&event, now)
            }
            Self::Telegram(fake) => {
                let mut update = fake.message(i64::from(number), i64::from(sender), text).body_as_json();
                update["message"]["chat"]["id"] = json!(chat);
                fake.request(&update)
            }
            Self::Whatsapp(fake) => fake.message(&format!("wamid.{number}"), &sender_id, text),
            Self::Teams(fake) => {
                let mut activity = fake.activity(&format!("m{number}"), &sender_id, text);
                activity["conversation"]["id"] = json!(format!("a:{chat}"));
                fake.event(&activity)
            }
            Self::GoogleChat(fake) => {
                let space = format!("spaces/AAAA{chat}");
                let mut event = fake.message_event(&format!("m{number}"), &sender_id, text);
                event["space"]["name"] = json!(space);
                event["message"]["name"] = json!(format!("{space}/messages/m{number}"));
                event["message"]["thread"]["name"] = json!(format!("{space}/threads/m{number}"));
                fake.event(&event)
            }
        }
    }

    /// Returns a button press as sent by the platform at this time.
    #[must_use]
    pub fn press(&self, press: &FakePress<'_>, now: Timestamp) -> WebhookRequest {
        let FakePress { chat, sender, number, message_id, data } = *press;
        let sender_id = self.sender_id(sender);
        match self {
            Self::Discord(fake) => {
                fake.press(&snowflake(number), &sender_id, &discord_channel(chat), message_id, data, now)
            }
            Self::Slack(fake) => {
                let ts = message_id.split_once(':').map_or(message_id, |(_, ts)| ts);
                fake.press(ts, &sender_id, &format!("D{chat}"), data, now)
            }
            Self::Telegram(fake) => {
                let message_id = message_id.parse().unwrap_or_default();
                fake.press(i64::from(number), i64::from(sender), i64::from(chat), message_id, data)
            }
            Self::Whatsapp(fake) => fake.press(&format!("wamid.{number}"), &sender_id, data, message_id),
            Self::Teams(fake) => {
                let mut activity = fake.activity(&format!("p{number}"), &sender_id, "");
                activity["conversation"]["id"] = json!(format!("a:{chat}"));
                activity["value"] = json!({"decision": data});
                activity["replyToId"] = json!(message_id);
                fake.event(&activity)
            }
            Self::GoogleChat(fake) => {
                let mut event = fake.press(&sender_id, data, message_id).body_as_json();
                event["space"]["name"] = json!(format!("spaces/AAAA{chat}"));
                fake.event(&event)
            }
        }
    }

    /// Returns the bodies of all messages, including rejected ones, oldest first.
    #[must_use]
    pub fn sent(&self) -> Vec<Value> {
        match self {
            Self::Discord(fake) => fake.sent(),
            Self::Slack(fake) => fake.sent(),
            Self::Telegram(fake) => fake.sent(),
            Self::Whatsapp(fake) => fake.sent(),
            Self::Teams(fake) => fake.sent(),
            Self::GoogleChat(fake) => fake.sent(),
        }
    }
}

/// Replaces the signature or secret of a request by a well-formed but wrong one.
#[must_use]
pub fn forged(mut request: WebhookRequest) -> WebhookRequest {
    for name in SIGNATURE_HEADERS {
        let text = request.headers.get(name).and_then(|value| value.to_str().ok());
        let Some(mut text) = text.map(str::to_owned) else { continue };
        // The last characters encode too few bits in Base64, and the first ones are not part of a number.
        let at = text.len().saturating_sub(20);
        let other = if text.get(at..=at) == Some("0") { "1" } else { "0" };
        text.replace_range(at..=at, other);
        if let Ok(value) = HeaderValue::from_str(&text) {
            request.headers.insert(name, value);
        }
    }
    request
}

fn discord_channel(chat: u32) -> String {
    format!("13{}", snowflake(chat))
}

fn snowflake(number: u32) -> String {
    (2_000_000_000_000_000 + u64::from(number)).to_string()
}

fn exposed(secret: Option<Secret>) -> Option<String> {
    secret.map(|secret| secret.expose().to_owned())
}

fn text(url: Option<Url>) -> Option<String> {
    url.map(String::from)
}
