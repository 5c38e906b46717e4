//! Receiving messages.

use std::sync::Arc;
use std::time::Duration;

use agentd_chat_platforms::{
    Attachment, Incoming, IncomingMessage, Platform, Undelivered, WebhookAnswer, WebhookRequest,
};
use agentd_core::rate_limit::{Outcome, RateLimiter, Refusal};
use agentd_store::{NewEvent, NewItem, StoreError, Tx};
use serde_json::{Value, json};

use super::{Channel, Channels};
use crate::channels::error::ChannelError;
use crate::channels::model::{
    ALBUM_PAUSE, ChannelMessageId, FinalStatus, GroupPolicy, MessageDetails, QUEUE, SenderPolicy, parse_button,
    parse_decision,
};
use crate::channels::store;

/// Admitted senders of messages that are not stored yet. On drop they are returned to the limiter, because unstored
/// messages are delivered again and must not count twice.
struct AdmittedSenders<'a> {
    admission: &'a RateLimiter<String>,
    senders: Vec<String>,
}

impl Drop for AdmittedSenders<'_> {
    fn drop(&mut self) {
        for sender in &self.senders {
            self.admission.put_back(sender);
        }
    }
}

impl Channels {
    /// Processes a webhook request; returns the response after its content was stored.
    ///
    /// # Errors
    /// `Off`, `Unverified`, `Malformed`, `KeysUnavailable`, `TooFast`, `Overloaded`, or the database fails.
    pub async fn receive(&self, platform: Platform, request: WebhookRequest) -> Result<WebhookAnswer, ChannelError> {
        let received = async {
            let channel = self.channel(platform).await?.ok_or(ChannelError::Off)?;
            let received = channel.adapter.receive(&request, self.0.context.clock.now()).await?;
            self.take(&channel, received.incoming).await?;
            Ok(received.answer)
        };
        received.await.inspect_err(|error: &ChannelError| self.0.counts.count(error.outcome()))
    }

    /// Stores incoming events, independent of how they were received.
    ///
    /// # Errors
    /// `TooFast`, `Overloaded`, or the database fails. All events can be delivered again then.
    pub(super) async fn take(&self, channel: &Arc<Channel>, incoming: Vec<Incoming>) -> Result<(), ChannelError> {
        let admission = self.0.admission.get(&channel.platform).ok_or(ChannelError::Off)?;
        let (mut messages, mut decisions, mut undelivered) = (Vec::new(), Vec::new(), Vec::new());
        for incoming in incoming.into_iter().filter_map(read_button) {
            match incoming {
                Incoming::Message(message) if should_store(channel.rules.groups, &message) => messages.push(message),
                Incoming::Message(_) => {}
                Incoming::Decision(decision) => decisions.push(decision),
                Incoming::Undelivered(failure) => undelivered.push(failure),
            }
        }
        if !messages.is_empty() {
            admission.check_backlog(&self.0.context).await?;
        }
        let mut admitted = AdmittedSenders { admission, senders: Vec::new() };
        let mut admitted_messages = Vec::new();
        for message in messages {
            if self.admit(admission, &message.sender.id)? {
                admitted.senders.push(message.sender.id.clone());
                admitted_messages.push(message);
            }
        }
        if !admitted_messages.is_empty() {
            let (this, channel) = (self.clone(), Arc::clone(channel));
            let work = async move |tx: &mut Tx| {
                let mut outcomes = Vec::new();
                for message in &admitted_messages {
                    outcomes.push(this.store(tx, &channel, message).await?);
                }
                Ok::<_, StoreError>(outcomes)
            };
            let outcomes = self.0.context.db.write(work).await?;
            admitted.senders.clear();
            outcomes.into_iter().for_each(|outcome| self.0.counts.count(outcome));
        }
        for failure in undelivered {
            self.note_undelivered(channel.platform, failure).await?;
        }
        // Last, because on an error all events are delivered again, and a repeated decision is reported as already
        // made.
        for decision in decisions {
            if self.admit(admission, &decision.sender.id)? {
                self.press(channel, decision).await?;
            }
        }
        Ok(())
    }

    /// Returns whether a message is admitted. Messages above a sender's limit are dropped, because the platform would
    /// repeat rejected ones before the messages of other senders.
    fn admit(&self, admission: &RateLimiter<String>, sender: &String) -> Result<bool, ChannelError> {
        match admission.admit(sender, self.0.context.clock.now()) {
            Ok(()) => Ok(true),
            Err(Refusal::TooFast { .. }) => {
                self.0.counts.count(Outcome::RateLimited);
                Ok(false)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Stores a message for the agent, or offers its sender a pairing code, depending on the rules of the channel.
    async fn store(&self, tx: &mut Tx, channel: &Channel, message: &IncomingMessage) -> Result<Outcome, StoreError> {
        let platform = channel.platform;
        let is_addressed = is_for_agent(channel.rules.groups, message);
        let is_trusted = channel.is_trusted(tx, &message.sender.id).await?;
        if !is_trusted {
            match channel.rules.sender_policy {
                SenderPolicy::Open => {}
                SenderPolicy::Pairing if is_addressed => {
                    self.offer_pairing(tx, platform, message).await?;
                    return Ok(Outcome::Accepted);
                }
                SenderPolicy::Pairing | SenderPolicy::Allowlist => return Ok(Outcome::Disabled),
            }
        }
        let id = ChannelMessageId::generate(&self.0.context.ids);
        if !store::insert_message(tx, &id, platform, message, is_trusted, is_addressed).await? {
            return Ok(Outcome::Repeated);
        }
        store::record_received(tx, platform).await?;
        if is_addressed {
            emit_message_received(tx, channel, message).await?;
        }
        if let Some(what) = message.unreadable {
            self.answer_unreadable(tx, platform, &id, message, what).await?;
            return Ok(Outcome::Accepted);
        }
        let pause = if message.album.is_some() { ALBUM_PAUSE } else { Duration::ZERO };
        tx.enqueue(NewItem {
            queue: QUEUE.to_owned(),
            dedup_key: None,
            payload: json!({ "message_id": id }),
            run_at: tx.clock().now() + pause,
            // The worker limits the attempts.
            max_attempts: u32::MAX,
        })
        .await?;
        Ok(Outcome::Accepted)
    }

    /// Marks a sent message that did not arrive as dead-lettered, and records the reason for the channel.
    async fn note_undelivered(&self, platform: Platform, failure: Undelivered) -> Result<(), ChannelError> {
        let notify = self.0.dependencies.notify.clone();
        let Undelivered { message_id, reason } = failure;
        tracing::info!(platform = platform.id(), message = message_id, reason, "message was not delivered");
        let note = async move |tx: &mut Tx| {
            notify.note_undelivered(tx, platform.id(), &message_id, &reason).await?;
            store::record_error(tx, platform, Some(&reason)).await
        };
        Ok(self.0.context.db.write::<_, StoreError, _>(note).await?)
    }

    /// Replies that the message has no readable content.
    async fn answer_unreadable(
        &self,
        tx: &mut Tx,
        platform: Platform,
        id: &ChannelMessageId,
        message: &IncomingMessage,
        what: &str,
    ) -> Result<(), StoreError> {
        store::update_ended(tx, id, FinalStatus::Answered, None).await?;
        let details = MessageDetails::new(message.reply_to.clone());
        let text = format!("agentd cannot read {what} yet.");
        self.send_in(tx, platform, &details, &text, format!("channel:{id}"), None).await
    }
}

/// Treats a button of another program as a message of the sender. Returns `None` for text that would decide an
/// approval, because another program wrote it.
fn read_button(incoming: Incoming) -> Option<Incoming> {
    match incoming {
        Incoming::Decision(other) if parse_button(&other.data).is_none() => {
            let message = other.into_message();
            parse_decision(&message.text).is_none().then_some(Incoming::Message(message))
        }
        incoming => Some(incoming),
    }
}

/// Emits an event for a message that is addressed to the agent.
async fn emit_message_received(tx: &mut Tx, channel: &Channel, message: &IncomingMessage) -> Result<(), StoreError> {
    let data = json!({
        "platform": channel.platform.id(),
        "channel": message.chat.id,
        "thread": message.chat.thread,
        "message_id": message.id,
        "sender": message.sender.id,
        "sender_name": message.sender.name,
        "agent_id": channel.rules.agent_id,
        "content": message.text,
        "context": message.context,
        "attachments": message.attachments.iter().map(attachment_data).collect::<Vec<_>>(),
    });
    tx.emit(NewEvent::new("channel.message.received", data)).await.map(|_| ())
}

/// Omits the source, which may grant access to the file.
fn attachment_data(attachment: &Attachment) -> Value {
    json!({"name": attachment.name, "media_type": attachment.media_type, "bytes": attachment.bytes})
}

/// Returns whether a message is stored. In a group, album parts without a mention are stored as well, because another
/// part may have one.
fn should_store(groups: GroupPolicy, message: &IncomingMessage) -> bool {
    let may_be_addressed = message.album.is_some() && message.unreadable.is_none() && groups != GroupPolicy::Never;
    is_for_agent(groups, message) || may_be_addressed
}

fn is_for_agent(groups: GroupPolicy, message: &IncomingMessage) -> bool {
    let has_content = !message.text.trim().is_empty()
        || !message.context.is_empty()
        || !message.attachments.is_empty()
        || message.unreadable.is_some();
    let is_wanted = match groups {
        GroupPolicy::Mention => message.is_addressed,
        GroupPolicy::Always => true,
        GroupPolicy::Never => false,
    };
    has_content && (!message.chat.is_group || is_wanted)
}
