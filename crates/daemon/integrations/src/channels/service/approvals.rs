//! Approvals, requested and decided in chats.
//!
//! Invariants
//! - Only the owner of the platform decides, and only in the conversation in which the approval was requested. A button
//!   counts only on the message that it was sent with.
//! - An input that does not fit into one message cannot be approved in the chat, only rejected: nothing is approved that
//!   is not shown completely.

use std::sync::Arc;

use agentd_base::{Page, PageLimits, Problems, visible};
use agentd_chat_platforms::{Address, ChatPlatform, Decision, Platform, Sender};
use agentd_engine::engine::{Approval, ApprovalStatus, EngineError, SessionId};
use agentd_store::{Read, StoreError, Tx};

use super::{Channel, Channels, plain_name};
use crate::channels::error::ChannelError;
use crate::channels::model::{ApprovalCode, ChannelMessage, ChatApproval, MessageDetails, parse_button};
use crate::channels::store;

const MAX_TOOL_CHARACTERS: usize = 200;

const ONLY_OWNER: &str = "Only the owner of this channel can approve or reject this.";
const NOT_REQUESTED_HERE: &str = "This approval was not requested in this conversation. Decide it where it was \
                                  requested, or in the web UI.";

/// Outcome of an attempt to decide.
enum Answer {
    /// The approval is decided; this text replaces the buttons.
    Settled(String),
    /// Nothing changed.
    Refused(String),
}

fn tool_of(approval: &Approval) -> String {
    let one_line = approval.tool.replace(['`', '\n', '\t'], " ");
    visible::escape(&one_line).chars().take(MAX_TOOL_CHARACTERS).collect()
}

/// The request with the whole input, as Markdown.
fn full_request(approval: &Approval, code: ApprovalCode) -> String {
    let input = serde_json::to_string_pretty(&approval.input).unwrap_or_default();
    // Backticks would end the block of code; JSON has another way to write them.
    let input = visible::escape(&input).replace("```", r"\u0060\u0060\u0060");
    let tool = tool_of(approval);
    let reason = approval.request_reason.as_deref().map(visible::escape);
    let reason = reason.map(|reason| format!("\n\nReason:\n```\n{}\n```", reason.replace("```", "` ` `")));
    let reason = reason.unwrap_or_default();
    format!(
        "May I use `{tool}`?\n\n```json\n{input}\n```{reason}\n\nYou can also reply with `approve {code}` or `reject {code}`."
    )
}

fn short_request(approval: &Approval, code: ApprovalCode, web_ui: &str) -> String {
    let characters = approval.input.to_string().chars().count();
    let tool = tool_of(approval);
    format!(
        "May I use `{tool}`? Its input has {characters} characters, which do not fit into a message. Approve it in \
         {web_ui}, where you see all of it. You can also reject it here, with `reject {code}`."
    )
}

impl Channels {
    /// Requests in their chats what turns of channels wait for, each once. Returns how many were requested.
    pub(crate) async fn request_approvals(&self) -> Result<u64, ChannelError> {
        if !store::has_running(&mut self.0.context.db.read().await?).await? {
            return Ok(0);
        }
        let page = Page::checked(Some(200), None, PageLimits::default(), &mut Problems::new());
        let (pending, _) = self.0.dependencies.engine.approvals().list(Some(ApprovalStatus::Pending), page).await?;
        let mut requested = 0;
        for approval in pending {
            if let Some(session) = approval.session_id.clone() {
                requested += u64::from(self.request_approval(approval, session).await?);
            }
        }
        Ok(requested)
    }

    async fn request_approval(&self, approval: Approval, session: SessionId) -> Result<bool, ChannelError> {
        let mut read = self.0.context.db.read().await?;
        let Some(message) = store::find_running(&mut read, session.as_str()).await? else { return Ok(false) };
        let is_known = store::find_approval(&mut read, &approval.id).await?.is_some();
        drop(read);
        let Some(channel) = self.channel(message.platform).await?.filter(|_| !is_known) else { return Ok(false) };
        let this = self.clone();
        let work = async move |tx: &mut Tx| {
            // The turn may have ended meanwhile.
            let Some(message) = store::find_running(tx, session.as_str()).await? else { return Ok(false) };
            let code = this.new_code(tx, &message).await?;
            let full = full_request(&approval, code);
            let can_approve = fits(channel.adapter.as_ref(), &full);
            let requested = ChatApproval {
                approval_id: approval.id.clone(),
                platform: message.platform,
                chat_id: message.chat.id.clone(),
                thread: message.chat.thread.clone(),
                code,
                can_approve,
                message_id: None,
            };
            if !store::insert_approval(tx, &requested).await? {
                return Ok(false);
            }
            let text = if can_approve { full } else { short_request(&approval, code, &this.web_ui()) };
            let details = MessageDetails {
                approval_id: Some(approval.id.to_string()),
                can_approve,
                ..MessageDetails::new(message.reply_to.clone())
            };
            let key = format!("approval:{}", approval.id);
            this.send_in(tx, message.platform, &details, &text, key, Some(approval.agent_id.as_str())).await?;
            Ok::<_, StoreError>(true)
        };
        Ok(self.0.context.db.write(work).await?)
    }

    /// A code that no other approval of the conversation has.
    async fn new_code(&self, read: &mut Read, message: &ChannelMessage) -> Result<ApprovalCode, StoreError> {
        loop {
            let code = ApprovalCode::generate(&self.0.context.entropy);
            if store::find_approval_by_code(read, message.platform, &message.chat, code).await?.is_none() {
                return Ok(code);
            }
        }
    }

    /// Where approvals can always be decided, as Markdown.
    fn web_ui(&self) -> String {
        match &self.0.dependencies.public_url {
            Some(url) => format!("the [web UI]({url}/approvals)"),
            None => "the web UI".to_owned(),
        }
    }

    /// Records the message that has the buttons of an approval.
    pub(crate) async fn record_approval_message(&self, approval: &str, message: &str) -> Result<(), ChannelError> {
        let (approval, message) = (approval.to_owned(), message.to_owned());
        let work = async move |tx: &mut Tx| store::update_approval_message(tx, &approval, &message).await;
        Ok(self.0.context.db.write::<_, StoreError, _>(work).await?)
    }

    /// Handles a pressed button.
    pub(super) async fn press(&self, channel: &Arc<Channel>, decision: Decision) -> Result<(), ChannelError> {
        let Some((is_approved, id)) = parse_button(&decision.data) else { return Ok(()) };
        let mut read = self.0.context.db.read().await?;
        let found = store::find_approval(&mut read, &id).await?;
        let requested = found.filter(|requested| has_button(requested, channel.platform, &decision));
        let is_owner = is_owner(&mut read, channel, &decision.sender.id).await?;
        drop(read);
        let answer = match requested {
            Some(requested) if is_owner => self.decide(channel, &requested, &decision.sender, is_approved).await?,
            Some(_) => Answer::Refused(ONLY_OWNER.to_owned()),
            None if is_owner => Answer::Refused(NOT_REQUESTED_HERE.to_owned()),
            // An unknown sender made this up, and is not answered.
            None => return Ok(()),
        };
        match answer {
            // The platform waits for its answer; changing the message must not delay it.
            Answer::Settled(text) => drop(tokio::spawn(replace_buttons(Arc::clone(&channel.adapter), decision, text))),
            Answer::Refused(text) => {
                let key = format!("approval-refused:{}:{id}:{}", channel.platform.id(), decision.sender.id);
                self.reply_once(channel.platform, decision.reply_to, text, key).await?;
            }
        }
        Ok(())
    }

    /// Handles `approve 123456` or `reject 123456`. Returns the reply.
    pub(crate) async fn decide_by_code(
        &self,
        message: &ChannelMessage,
        code: ApprovalCode,
        is_approved: bool,
    ) -> Result<String, ChannelError> {
        let channel = self.channel(message.platform).await?.ok_or(ChannelError::Off)?;
        let mut read = self.0.context.db.read().await?;
        let is_owner = is_owner(&mut read, &channel, &message.sender.id).await?;
        let requested = store::find_approval_by_code(&mut read, message.platform, &message.chat, code).await?;
        drop(read);
        match requested {
            _ if !is_owner => Ok(ONLY_OWNER.to_owned()),
            None => Ok(format!("No approval with the code {code} was requested in this conversation.")),
            Some(requested) => match self.decide(&channel, &requested, &message.sender, is_approved).await? {
                Answer::Settled(text) | Answer::Refused(text) => Ok(text),
            },
        }
    }

    async fn decide(
        &self,
        channel: &Channel,
        requested: &ChatApproval,
        sender: &Sender,
        is_approved: bool,
    ) -> Result<Answer, ChannelError> {
        if is_approved && !requested.can_approve {
            let web_ui = self.web_ui();
            return Ok(Answer::Refused(format!("This chat does not show the whole input. Approve it in {web_ui}.")));
        }
        let verb = if is_approved { "Approved" } else { "Rejected" };
        let reason = format!("{verb} by {} on {}", plain_name(sender), channel.platform.id());
        let approvals = self.0.dependencies.engine.approvals();
        match approvals.decide(&requested.approval_id, None, is_approved, Some(reason.clone())).await {
            Ok(_) => Ok(Answer::Settled(reason)),
            Err(EngineError::Store(error)) => Err(error.into()),
            Err(error) => Ok(Answer::Settled(error.to_string())),
        }
    }

    /// Sends a text to a chat, once for each key.
    async fn reply_once(&self, to: Platform, address: Address, text: String, key: String) -> Result<(), ChannelError> {
        let this = self.clone();
        let work = async move |tx: &mut Tx| {
            this.send_in(tx, to, &MessageDetails::new(address.clone()), &text, key.clone(), None).await
        };
        Ok(self.0.context.db.write::<_, StoreError, _>(work).await?)
    }
}

/// Whether the text and its buttons are one message.
fn fits(adapter: &dyn ChatPlatform, markdown: &str) -> bool {
    matches!(adapter.render(markdown).as_slice(), [part] if adapter.fits_with_buttons(part))
}

/// Whether the pressed button is that of the message which requested the approval.
fn has_button(requested: &ChatApproval, platform: Platform, decision: &Decision) -> bool {
    // A message is in one thread, so its thread need not be compared.
    requested.platform == platform
        && requested.chat_id == decision.chat.id
        && requested.message_id.as_ref().is_some_and(|id| !id.is_empty() && *id == decision.message_id)
}

/// Whether a sender is the owner of the platform, and may still write to the agent.
async fn is_owner(read: &mut Read, channel: &Channel, sender: &str) -> Result<bool, StoreError> {
    let owner = store::find_owner(read, channel.platform).await?;
    Ok(owner.as_deref() == Some(sender) && channel.is_trusted(read, sender).await?)
}

async fn replace_buttons(adapter: Arc<dyn ChatPlatform>, decision: Decision, text: String) {
    let Some(text) = adapter.render(&text).into_iter().next() else { return };
    if let Err(error) = adapter.settle(&decision.message, &text).await {
        tracing::info!(%error, "failed to replace the buttons of a decided approval");
    }
}
