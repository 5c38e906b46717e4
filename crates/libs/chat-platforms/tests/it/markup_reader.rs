//! Reader of rendered messages for markup tests: code blocks and the text around them.

use agentd_base::MockClock;
use agentd_chat_platforms::discord::{Discord, DiscordConfig};
use agentd_chat_platforms::google_chat::{GoogleChat, GoogleChatConfig};
use agentd_chat_platforms::slack::{Slack, SlackConfig};
use agentd_chat_platforms::teams::{Teams, TeamsConfig};
use agentd_chat_platforms::telegram::{Telegram, TelegramConfig};
use agentd_chat_platforms::whatsapp::{Whatsapp, WhatsappConfig};
use agentd_chat_platforms::{ChatPlatform, Platform};
use agentd_net::Trust;
use agentd_testing_chat_platforms::telegram::html;

use crate::support::{NOW, client};

pub(crate) fn adapter(platform: Platform) -> Box<dyn ChatPlatform> {
    let (client, clock) = (client(Trust::Owner), MockClock::new(NOW).clock());
    match platform {
        Platform::Discord => Box::new(Discord::new(DiscordConfig::default(), client, clock)),
        Platform::Slack => Box::new(Slack::new(SlackConfig::default(), client)),
        Platform::Telegram => Box::new(Telegram::new(TelegramConfig::default(), client)),
        Platform::Whatsapp => Box::new(Whatsapp::new(WhatsappConfig::default(), client)),
        Platform::Teams => Box::new(Teams::new(TeamsConfig::default(), client.clone(), client, clock)),
        Platform::GoogleChat => Box::new(GoogleChat::new(GoogleChatConfig::default(), client, clock)),
    }
}

/// Code block as shown by a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Code {
    /// Language; empty if the markup does not support languages.
    pub(crate) language: String,
    pub(crate) text: String,
}

pub(crate) fn code(language: &str, text: &str) -> Code {
    Code { language: language.to_owned(), text: text.to_owned() }
}

/// Returns the code blocks of a message and the text around them.
fn read(platform: Platform, message: &str) -> (Vec<Code>, String) {
    if platform == Platform::Telegram { read_html(message) } else { read_fences(platform, message) }
}

fn read_html(message: &str) -> (Vec<Code>, String) {
    let (mut blocks, mut around, mut rest) = (Vec::new(), String::new(), message);
    while let Some((before, after)) = rest.split_once("<pre>") {
        let (inner, after) = after.split_once("</pre>").expect("an end of the code");
        around.push_str(before);
        rest = after;
        let tagged = inner.strip_prefix("<code class=\"language-").and_then(|inner| inner.strip_suffix("</code>"));
        let (language, inner) = tagged.and_then(|inner| inner.split_once("\">")).unwrap_or(("", inner));
        blocks.push(code(language, &html::parse(inner).expect("code without tags")));
    }
    around.push_str(rest);
    html::parse(message).expect("well-formed HTML");
    (blocks, html::parse(&around).expect("well-formed HTML around code"))
}

/// Reads fences, which must be at the beginning of a line.
fn read_fences(platform: Platform, message: &str) -> (Vec<Code>, String) {
    let (mut blocks, mut around) = (Vec::new(), String::new());
    let mut lines = message.split('\n');
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            assert!(!line.trim_start_matches([' ', '>']).starts_with("```"), "a fence within a line: {message}");
            around.push_str(line);
            around.push('\n');
            continue;
        };
        let inner: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let inner = inner.join("\n");
        let plain = match platform {
            Platform::Slack => inner.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"),
            _ => inner,
        };
        blocks.push(code(language, &plain));
    }
    assert_eq!(message.split('\n').filter(|line| line.starts_with("```")).count(), blocks.len() * 2, "{message}");
    (blocks, around)
}

pub(crate) fn length(platform: Platform, message: &str) -> usize {
    match platform {
        Platform::Discord | Platform::Telegram => message.encode_utf16().count(),
        Platform::Slack | Platform::Whatsapp => message.chars().count(),
        Platform::Teams | Platform::GoogleChat => message.len(),
    }
}

pub(crate) fn limit(platform: Platform) -> usize {
    match platform {
        Platform::Discord => 2_000,
        Platform::Slack => 3_000,
        Platform::Telegram | Platform::Whatsapp => 4_096,
        Platform::Teams => 20_000,
        Platform::GoogleChat => 16_000,
    }
}

/// Returns the code of all messages and the text around it, after checking that every message is within the limit.
pub(crate) fn render(platform: Platform, markdown: &str) -> (Vec<Code>, String) {
    let (mut blocks, mut around) = (Vec::new(), String::new());
    for message in adapter(platform).render(markdown) {
        assert!(length(platform, &message) <= limit(platform), "{platform:?}: {} is too long", message.len());
        let (of_message, text) = read(platform, &message);
        blocks.extend(of_message);
        around.push_str(&text);
        around.push('\n');
    }
    (blocks, around)
}
