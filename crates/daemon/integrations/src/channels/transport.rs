//! Delivery of messages to chat platforms, part by part.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_automation::notify::{
    Delivered, DeliveryFailure, MessageFormat, NotificationId, Outgoing, Retry, Transport,
};
use agentd_chat_platforms::{ChatPlatform, Outgoing as Part, Platform, SendError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::model::MessageDetails;
use super::service::{Channel, Channels};

/// Maximum number of partially sent messages that are tracked. When exceeded, all are forgotten, and parts may be sent
/// again.
const MAX_PARTLY_SENT: usize = 1_000;

/// Transport of one platform.
#[derive(Debug)]
pub(super) struct ChannelTransport {
    platform: Platform,
    channels: Channels,
    /// Number of sent parts per message. Held in memory only, so parts may be sent again after a kill.
    partly_sent: Mutex<HashMap<NotificationId, usize>>,
}

/// Returns the transports of all platforms.
pub(super) fn transports(channels: &Channels) -> impl Iterator<Item = Arc<dyn Transport>> {
    Platform::ALL.into_iter().map(|platform| Arc::new(ChannelTransport::new(platform, channels.clone())) as _)
}

impl ChannelTransport {
    fn new(platform: Platform, channels: Channels) -> Self {
        Self { platform, channels, partly_sent: Mutex::default() }
    }

    async fn send(&self, message: &Outgoing) -> Result<Delivered, DeliveryFailure> {
        let later = |error: super::error::ChannelError| DeliveryFailure::later(error.to_string());
        let Some(channel) = self.channels.channel(self.platform).await.map_err(later)? else {
            let text = format!("channel {} is disabled; enable it with PUT /api/channels/settings", self.platform.id());
            return Err(DeliveryFailure::later(text));
        };
        let sent = self.send_parts(&channel, message).await;
        let error = sent.as_ref().err().map(|failure| failure.message.clone());
        self.channels.record_outcome(&channel, error).await;
        sent
    }

    async fn send_parts(&self, channel: &Channel, message: &Outgoing) -> Result<Delivered, DeliveryFailure> {
        let details: Option<MessageDetails> =
            message.details.clone().and_then(|details| serde_json::from_value(details).ok());
        let address = match &details {
            Some(details) => details.address.clone(),
            None => channel.adapter.address(&message.channel).map_err(DeliveryFailure::permanent)?,
        };
        let parts = render_parts(channel.adapter.as_ref(), message);
        let is_plain = is_plain(message.format);
        let done = self.partly_sent.lock().get(&message.id).copied().unwrap_or_default();
        let mut reference = None;
        for (number, text) in parts.iter().enumerate().skip(done) {
            let is_last = number + 1 == parts.len();
            let buttons = details.as_ref().filter(|_| is_last).map(MessageDetails::buttons).unwrap_or_default();
            let part = Part { text: text.clone(), is_plain, buttons };
            let sent = channel.adapter.send(&address, &part).await.map_err(failure)?.id;
            if !is_last {
                self.record_sent_parts(&message.id, number + 1);
            } else if let Some(approval) = details.as_ref().and_then(|details| details.approval_id.as_deref()) {
                let recorded = self.channels.record_approval_message(approval, &sent).await;
                recorded.map_err(|error| DeliveryFailure::later(error.to_string()))?;
            }
            reference = Some(sent);
        }
        self.partly_sent.lock().remove(&message.id);
        Ok(Delivered { reference })
    }

    fn record_sent_parts(&self, id: &NotificationId, parts: usize) {
        let mut partly_sent = self.partly_sent.lock();
        if partly_sent.len() >= MAX_PARTLY_SENT {
            partly_sent.clear();
        }
        partly_sent.insert(id.clone(), parts);
    }
}

impl Transport for ChannelTransport {
    fn platform(&self) -> &'static str {
        self.platform.id()
    }

    fn deliver<'a>(&'a self, message: &'a Outgoing) -> BoxFuture<'a, Result<Delivered, DeliveryFailure>> {
        self.send(message).boxed()
    }
}

fn failure(error: SendError) -> DeliveryFailure {
    let retry = match &error {
        SendError::RateLimited { wait: Some(wait), .. } => Retry::After(*wait),
        SendError::RateLimited { wait: None, .. }
        | SendError::Later(_)
        // The owner may fix these meanwhile.
        | SendError::NotSetUp(_)
        | SendError::Credentials(_) => Retry::Later,
        SendError::Blocked(_) | SendError::Gone(_) | SendError::WindowClosed(_) | SendError::Refused(_) => Retry::Never,
    };
    DeliveryFailure { message: error.to_string(), retry }
}

fn is_plain(format: MessageFormat) -> bool {
    matches!(format, MessageFormat::Text | MessageFormat::Html)
}

/// Renders the message in the platform's markup, with its subject on top unless the body begins with it.
fn render_parts(adapter: &dyn ChatPlatform, message: &Outgoing) -> Vec<String> {
    let subject = if message.body.starts_with(&message.subject) { "" } else { message.subject.as_str() };
    if is_plain(message.format) {
        return adapter.render_text(subject, &message.body);
    }
    let body = match message.format {
        MessageFormat::Json => code_block("json", &message.body),
        _ => message.body.clone(),
    };
    adapter.render(&if subject.is_empty() { body } else { format!("**{}**\n\n{body}", escape_markdown(subject)) })
}

/// Formats a Markdown code block with a fence longer than any in the code.
fn code_block(language: &str, code: &str) -> String {
    let longest = code.split(|character| character != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{code}\n{fence}")
}

/// Escapes text for Markdown.
fn escape_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    for character in text.chars() {
        if character.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn temporary_errors_are_retried() {
        let wait = Some(Duration::from_secs(7));
        let limited = |wait| SendError::RateLimited { message: String::new(), wait };
        assert_eq!(failure(limited(wait)).retry, Retry::After(Duration::from_secs(7)));
        assert_eq!(failure(limited(None)).retry, Retry::Later);
        assert_eq!(failure(SendError::Credentials(String::new())).retry, Retry::Later);
        for gone in [SendError::Blocked, SendError::Gone, SendError::WindowClosed, SendError::Refused] {
            assert_eq!(failure(gone(String::new())).retry, Retry::Never);
        }
    }

    #[test]
    fn markdown_characters_are_escaped() {
        assert_eq!(escape_markdown("a *b* [c](d)"), "a \\*b\\* \\[c\\]\\(d\\)");
    }

    #[test]
    fn fence_is_longer_than_those_in_the_code() {
        assert_eq!(code_block("json", "{}"), "```json\n{}\n```");
        assert_eq!(code_block("", "a ```` b"), "`````\na ```` b\n`````");
    }
}
