//! Calls that the owner is asked about: which must ask, and what answers do.

use agentd_core::settings::AfterUntrustedText;
use serde_json::{Map, Value};

use super::context::TurnContext;
use super::conversation::Conversation;
use crate::engine::model::{
    Approval, ApprovalStatus, CallProgress, CallStatus, Outcome, Sources, ToolUse, fingerprint,
};
use crate::tools::{Author, Consequence, Effect, InputSchema, Offer, Tool, ToolDescription, fingerprint_of};

/// Whether a call asks first: `None` if not, else the sources of the untrusted text because of which it does, of
/// which there are none where the conversation or the settings demand it.
pub(super) async fn reason_to_ask(
    context: &TurnContext,
    conversation: &Conversation,
    tool: &dyn Tool,
    input: &Map<String, Value>,
) -> Option<Sources> {
    let is_cautious = context.engine.settings.security().after_untrusted_text == AfterUntrustedText::Ask;
    let sources = conversation.prompt.sources();
    if is_cautious && !sources.is_empty() && is_consequential(context, conversation, tool, input).await {
        return Some(sources.clone());
    }
    must_ask(context, tool.description()).then(Sources::default)
}

/// Whether a call does something outside the agent's own data that the user did not name.
async fn is_consequential(
    context: &TurnContext,
    conversation: &Conversation,
    tool: &dyn Tool,
    input: &Map<String, Value>,
) -> bool {
    let Conversation { prompt, offer, .. } = conversation;
    match tool.consequence(input, &context.agent).await {
        Consequence::Contained => false,
        Consequence::Requests(url) => {
            let is_named = url.host_str().is_some_and(|host| prompt.names_host(host));
            let is_external = |name: &str| offer.find(name).is_some_and(|tool| tool.output_author() != Author::Trusted);
            !is_named && !prompt.knows_address(&url, is_external)
        }
        Consequence::SendsTo(host) => !prompt.names_host(&host),
        Consequence::Acts => true,
    }
}

fn must_ask(context: &TurnContext, description: &ToolDescription) -> bool {
    let security = context.engine.settings.security();
    let is_named = security.approval_tools.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => description.name.starts_with(start),
        None => description.name == *pattern,
    });
    is_named || description.effect == Effect::Acts && !matches!(context.tools, ToolUse::Free)
}

/// What an answer means: what the input must still fit to be run, or what the model is told instead.
pub(super) fn decided(
    offer: &Offer,
    progress: &CallProgress,
    decision: Option<&Approval>,
) -> Result<InputSchema, Outcome> {
    let Some(decision) = decision else {
        return Err(Outcome::refused(CallStatus::Expired, "the approval was never answered"));
    };
    let because = decision.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match decision.status {
        ApprovalStatus::Approved => {}
        ApprovalStatus::Rejected => {
            return Err(Outcome::refused(CallStatus::Rejected, format!("the owner said no{because}")));
        }
        _ => return Err(Outcome::refused(CallStatus::Expired, "nobody approved this in time")),
    }
    let tool = offer.find(&progress.call.name).ok_or_else(|| Outcome::failed("the tool is gone by now"))?;
    if fingerprint(&progress.call.name, &progress.call.input) != decision.input_sha256 {
        return Err(Outcome::failed("what was approved is not what was to run, so nothing ran"));
    }
    if progress.tool_fingerprint.as_ref().is_some_and(|asked| *asked != fingerprint_of(tool.as_ref())) {
        return Err(Outcome::failed(
            "the tool was changed after its owner was asked about this call, so nothing ran; ask for it again",
        ));
    }
    Ok(tool.description().input_schema.clone())
}
