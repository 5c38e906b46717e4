//! Letting messages in.

use std::sync::Arc;
use std::time::Duration;

use agentd_chat_platforms::{Attachment, Incoming, IncomingMessage, Platform, WebhookAnswer, WebhookRequest};
use agentd_core::rate_limit::{Outcome, RateLimiter, Refusal};
use agentd_store::{NewEvent, NewItem, StoreError, Tx};
use serde_json::{Value, json};

use super::approvals::is_decision;
use super::{Channel, Channels, MessageDetails};
use crate::channels::error::ChannelError;
use crate::channels::model::{
    ALBUM_PAUSE, ChannelMessageId, GroupPolicy, MessageEnd, QUEUE, SenderPolicy, parse_decision,
};
use crate::channels::store;

/// Who wrote a message, to the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Let in or named.
    Trusted,
    /// Anybody, where anybody may speak.
    Untrusted,
    /// Gets a code, and nothing else.
    Stranger,
    /// Is not answered.
    Refused,
}

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
        let received = self.try_receive(platform, request).await;
        if let Err(error) = &received {
            self.0.counts.count(error.outcome());
        }
        received
    }

    async fn try_receive(&self, platform: Platform, request: WebhookRequest) -> Result<WebhookAnswer, ChannelError> {
        let channel = self.channel(platform).await?.ok_or(ChannelError::Off)?;
        let received = channel.adapter.receive(&request, self.0.context.clock.now()).await?;
        if !received.incoming.is_empty() {
            self.take(&channel, received.incoming).await?;
        }
        Ok(received.answer)
    }

    /// Stores what came, however it came.
    ///
    /// # Errors
    /// `TooFast`, `Overloaded`, or the store's refusal. Then all of it may be taken again.
    pub(crate) async fn take(&self, channel: &Arc<Channel>, incoming: Vec<Incoming>) -> Result<(), ChannelError> {
        let (mut messages, mut decisions, mut undelivered) = (Vec::new(), Vec::new(), Vec::new());
        for incoming in incoming {
            let incoming = match incoming {
                // A button of another program: what is on it is what the person said.
                Incoming::Decision(other) if !is_decision(&other.data) => {
                    let message = other.into_message();
                    // Nobody decides by text that another program wrote.
                    if parse_decision(&message.text).is_some() {
                        continue;
                    }
                    Incoming::Message(message)
                }
                incoming => incoming,
            };
            match incoming {
                Incoming::Message(message) if is_kept(channel.rules.groups, &message) => messages.push(message),
                Incoming::Message(_) => {}
                Incoming::Decision(decision) => decisions.push(decision),
                Incoming::Undelivered(failure) => undelivered.push(failure),
            }
        }
        if !messages.is_empty() {
            self.take_messages(channel, messages).await?;
        }
        for failure in undelivered {
            self.note_undelivered(channel, failure).await?;
        }
        // Last: what fails comes again as a whole, and a decision that comes again is told that it was made already.
        for decision in decisions {
            if self.admit(self.admission(channel.platform)?, &decision.sender.id)? {
                self.press(channel, decision).await?;
            }
        }
        Ok(())
    }

    async fn take_messages(&self, channel: &Arc<Channel>, messages: Vec<IncomingMessage>) -> Result<(), ChannelError> {
        let admission = self.admission(channel.platform)?;
        admission.check_backlog(&self.0.context).await?;
        let mut admitted = Admitted { admission, senders: Vec::new() };
        let mut kept = Vec::new();
        for message in messages {
            if self.admit(admission, &message.sender.id)? {
                admitted.senders.push(message.sender.id.clone());
                kept.push(message);
            }
        }
        if kept.is_empty() {
            return Ok(());
        }
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
        for outcome in outcomes {
            self.0.counts.count(outcome);
        }
        Ok(())
    }

    fn admission(&self, platform: Platform) -> Result<&RateLimiter<String>, ChannelError> {
        self.0.admission.get(&platform).ok_or(ChannelError::Off)
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

    async fn store(&self, tx: &mut Tx, channel: &Channel, message: &IncomingMessage) -> Result<Outcome, StoreError> {
        let platform = channel.platform;
        let is_addressed = is_for_agent(channel.rules.groups, message);
        let is_trusted = match standing(tx, channel, message).await? {
            Standing::Trusted => true,
            Standing::Untrusted => false,
            Standing::Stranger if !is_addressed => return Ok(Outcome::Disabled),
            Standing::Stranger => {
                self.offer_pairing(tx, platform, message).await?;
                return Ok(Outcome::Accepted);
            }
            Standing::Refused => return Ok(Outcome::Disabled),
        };
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

async fn standing(tx: &mut Tx, channel: &Channel, message: &IncomingMessage) -> Result<Standing, StoreError> {
    if channel.is_trusted(tx, &message.sender.id).await? {
        return Ok(Standing::Trusted);
    }
    Ok(match channel.rules.sender_policy {
        SenderPolicy::Open => Standing::Untrusted,
        SenderPolicy::Pairing => Standing::Stranger,
        SenderPolicy::Allowlist => Standing::Refused,
    })
}
