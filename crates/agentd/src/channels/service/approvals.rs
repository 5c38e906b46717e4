//! Approvals, asked for and answered where the person is who caused them.

use std::sync::Arc;

use agentd_base::{Page, PageLimits, Problems};
use agentd_chat_platforms::{Button, ButtonStyle, ChatPlatform, Decision};
use agentd_store::{StoreError, Tx};

use super::{Channel, Channels, MessageDetails};
use crate::channels::error::ChannelError;
use crate::channels::store;
use crate::engine::{Approval, ApprovalId, ApprovalStatus, EngineError};

const APPROVE: &str = "approve:";
const REJECT: &str = "reject:";
/// Of a longer input the beginning is shown.
const MAX_INPUT_CHARACTERS: usize = 1_500;

pub(super) fn buttons(approval: &str) -> Vec<Button> {
    let button = |label: &str, action: &str, style| Button {
        label: label.to_owned(),
        data: format!("{action}{approval}"),
        style,
    };
    vec![button("Approve", APPROVE, ButtonStyle::Primary), button("Reject", REJECT, ButtonStyle::Danger)]
}

fn question(approval: &Approval) -> String {
    let input = serde_json::to_string_pretty(&approval.input).unwrap_or_default();
    let shown: String = input.chars().take(MAX_INPUT_CHARACTERS).collect();
    let cut = if shown.len() < input.len() {
        "\n\nThis is the beginning of it; GET /api/chat/approvals shows the whole."
    } else {
        ""
    };
    let plain = |text: &str| text.replace("```", "` ` `");
    let reason = approval.request_reason.as_deref();
    let reason = reason.map(|reason| format!("\n\nReason:\n```\n{}\n```", plain(reason))).unwrap_or_default();
    format!("May I use `{}`?\n\n```json\n{}\n```{cut}{reason}", approval.tool, plain(&shown))
}

impl Channels {
    /// Asks in their chats for what turns of channels wait for; each once. Answers how many were looked at.
    pub(in crate::channels) async fn ask_for_approvals(&self) -> Result<u64, ChannelError> {
        if !store::has_running(&mut self.0.context.db.read().await?).await? {
            return Ok(0);
        }
        let page = Page::checked(Some(200), None, PageLimits::default(), &mut Problems::new());
        let approvals = self.0.uses.engine.approvals();
        let (pending, _) = approvals.list(Some(ApprovalStatus::Pending), page).await?;
        let mut asked = 0;
        for approval in pending {
            let Some(session) = approval.session_id.clone() else { continue };
            let this = self.clone();
            let work = async move |tx: &mut Tx| {
                let Some(message) = store::find_running(tx, session.as_str()).await? else { return Ok(0) };
                let details =
                    MessageDetails { address: message.reply_to.clone(), approval_id: Some(approval.id.to_string()) };
                let key = format!("approval:{}", approval.id);
                let agent = approval.agent_id.as_str();
                this.send_in(tx, message.platform, &details, &question(&approval), key, Some(agent)).await?;
                Ok::<_, StoreError>(1)
            };
            asked += self.0.context.db.write(work).await?;
        }
        Ok(asked)
    }

    /// Somebody pressed a button: what was decided takes the place of the question. Only those whom the owner let in
    /// may.
    pub(super) async fn decide(&self, channel: &Arc<Channel>, decision: Decision) -> Result<(), ChannelError> {
        let (id, is_approved) = match (decision.data.strip_prefix(APPROVE), decision.data.strip_prefix(REJECT)) {
            (Some(id), _) => (ApprovalId::from(id), true),
            (_, Some(id)) => (ApprovalId::from(id), false),
            _ => return Ok(()),
        };
        let mut read = self.0.context.db.read().await?;
        if !store::find_sender(&mut read, channel.platform, &decision.sender.id).await? {
            return Ok(());
        }
        drop(read);
        let name = if decision.sender.name.is_empty() { &decision.sender.id } else { &decision.sender.name };
        let verb = if is_approved { "Approved" } else { "Rejected" };
        let reason = format!("{verb} by {name} on {}", channel.platform.id());
        let approvals = self.0.uses.engine.approvals();
        let told = match approvals.decide(&id, None, is_approved, Some(reason.clone())).await {
            Ok(_) => reason,
            Err(EngineError::Store(error)) => return Err(error.into()),
            Err(error) => error.to_string(),
        };
        let adapter = Arc::clone(&channel.adapter);
        // The platform waits for its answer; what the buttons leave behind does not matter to it.
        tokio::spawn(async move { settle(adapter.as_ref(), &decision, &told).await });
        Ok(())
    }
}

async fn settle(adapter: &dyn ChatPlatform, decision: &Decision, told: &str) {
    let Some(text) = adapter.render(told).into_iter().next() else { return };
    if let Err(error) = adapter.settle(&decision.message, &text).await {
        tracing::info!(%error, "what was decided could not be shown where it was asked");
    }
}
