//! Letting messages in.

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
    ALBUM_PAUSE, ChannelMessageId, GroupPolicy, MessageDetails, MessageEnd, QUEUE, SenderPolicy, parse_button,
    parse_decision,
};
use crate::channels::store;

/// Senders of messages that are let in and not stored yet. What is not stored comes again, and must not count twice.
struct Admitted<'a> {
    admission: &'a RateLimiter<String>,
    senders: Vec<String>,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        for sender in &self.senders {
            self.admission.put_back(sender);
        }
    }
}

impl Channels {
    /// Takes a request of a platform; answers what the platform is to get, after what came is stored.
    ///
    /// # Errors
    /// `Off`, `Unverified`, `Malformed`, `KeysAway`, `TooFast`, `Overloaded`, or the store's refusal.
    pub async fn receive(&self, platform: Platform, request: WebhookRequest) -> Result<WebhookAnswer, ChannelError> {
        let received = async {
            let channel = self.channel(platform).await?.ok_or(ChannelError::Off)?;
            let received = channel.adapter.receive(&request, self.0.context.clock.now()).await?;
            self.take(&channel, received.incoming).await?;
            Ok(received.answer)
        };
        received.await.inspect_err(|error: &ChannelError| self.0.counts.count(error.outcome()))
    }

    /// Stores what came, however it came.
    ///
    /// # Errors
    /// `TooFast`, `Overloaded`, or the store's refusal. Then all of it may be taken again.
    pub(super) async fn take(&self, channel: &Arc<Channel>, incoming: Vec<Incoming>) -> Result<(), ChannelError> {
        let admission = self.0.admission.get(&channel.platform).ok_or(ChannelError::Off)?;
        let (mut messages, mut decisions, mut undelivered) = (Vec::new(), Vec::new(), Vec::new());
        for incoming in incoming.into_iter().filter_map(read_button) {
            match incoming {
                Incoming::Message(message) if is_kept(channel.rules.groups, &message) => messages.push(message),
                Incoming::Message(_) => {}
                Incoming::Decision(decision) => decisions.push(decision),
                Incoming::Undelivered(failure) => undelivered.push(failure),
            }
        }
        if !messages.is_empty() {
            admission.check_backlog(&self.0.context).await?;
        }
        let mut admitted = Admitted { admission, senders: Vec::new() };
        let mut kept = Vec::new();
        for message in messages {
            if self.admit(admission, &message.sender.id)? {
                admitted.senders.push(message.sender.id.clone());
                kept.push(message);
            }
        }
        if !kept.is_empty() {
            let (this, channel) = (self.clone(), Arc::clone(channel));
            let work = async move |tx: &mut Tx| {
                let mut outcomes = Vec::new();
                for message in &kept {
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
        // Last: what fails comes again as a whole, and a decision that comes again is told that it was made already.
        for decision in decisions {
            if self.admit(admission, &decision.sender.id)? {
                self.press(channel, decision).await?;
            }
        }
        Ok(())
    }

    /// Whether it is taken. What one sender writes too fast is dropped: were it refused, the platform would send it
    /// again and again, before everybody else's.
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

    /// Stores a message for the agent, or offers its sender a pairing code, as the rules of the channel say.
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
        store::note_received(tx, platform).await?;
        if is_addressed {
            emit_received(tx, channel, message).await?;
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
            // How often is for the worker to decide.
            max_attempts: u32::MAX,
        })
        .await?;
        Ok(Outcome::Accepted)
    }

    /// A message that had gone out did not arrive: it is a dead letter, and the channel says why.
    async fn note_undelivered(&self, platform: Platform, failure: Undelivered) -> Result<(), ChannelError> {
        let notify = self.0.uses.notify.clone();
        let Undelivered { message_id, reason } = failure;
        tracing::info!(platform = platform.id(), message = message_id, reason, "a message did not arrive");
        let note = async move |tx: &mut Tx| {
            notify.note_undelivered(tx, platform.id(), &message_id, &reason).await?;
            store::note_error(tx, platform, Some(&reason)).await
        };
        Ok(self.0.context.db.write::<_, StoreError, _>(note).await?)
    }

    /// Tells the sender that the message holds nothing that can be read.
    async fn answer_unreadable(
        &self,
        tx: &mut Tx,
        platform: Platform,
        id: &ChannelMessageId,
        message: &IncomingMessage,
        what: &str,
    ) -> Result<(), StoreError> {
        store::update_ended(tx, id, MessageEnd::Answered, None).await?;
        let details = MessageDetails::new(message.reply_to.clone());
        let text = format!("agentd cannot read {what} yet.");
        self.send_in(tx, platform, &details, &text, format!("channel:{id}"), None).await
    }
}

/// What is on a button of another program is what the sender said. `None`: nobody decides by text that another program
/// wrote.
fn read_button(incoming: Incoming) -> Option<Incoming> {
    match incoming {
        Incoming::Decision(other) if parse_button(&other.data).is_none() => {
            let message = other.into_message();
            parse_decision(&message.text).is_none().then_some(Incoming::Message(message))
        }
        incoming => Some(incoming),
    }
}

/// Tells hooks of a message that is meant for the agent.
async fn emit_received(tx: &mut Tx, channel: &Channel, message: &IncomingMessage) -> Result<(), StoreError> {
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
        "attachments": message.attachments.iter().map(named).collect::<Vec<_>>(),
    });
    tx.emit(NewEvent::new("channel.message.received", data)).await.map(|_| ())
}

/// Without where it is: that may open it to anybody.
fn named(attachment: &Attachment) -> Value {
    json!({"name": attachment.name, "media_type": attachment.media_type, "bytes": attachment.bytes})
}

/// Whether a message is stored. In a group, parts of an album without a mention are stored too: another part may have one.
fn is_kept(groups: GroupPolicy, message: &IncomingMessage) -> bool {
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
