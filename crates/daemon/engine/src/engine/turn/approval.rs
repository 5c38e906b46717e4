//! Calls that the owner is asked about: which must ask, how a turn waits, and what answers do.

use agentd_core::settings::AfterUntrustedText;
use serde_json::{Map, Value};

use super::tool_round::{AfterTools, Opening, Ready, logged};
use super::{GivenUp, Turn, park};
use crate::engine::model::{
    Approval, ApprovalStatus, CallProgress, CallStatus, Outcome, Sources, ToolUse, fingerprint,
};
use crate::tools::{Author, Consequence, Effect, InputSchema, Tool, ToolDescription, fingerprint_of};

impl Turn {
    /// Nothing is left to do but wait: lets go of the session, unless the answers are there already.
    pub(crate) async fn wait_for_approvals(&mut self, mut calls: Vec<CallProgress>) -> Result<AfterTools, GivenUp> {
        let decisions = match park::park(self, &calls).await.map_err(|error| (error, Vec::new()))? {
            park::Parked::Yes => return Ok(AfterTools::Parked),
            park::Parked::AlreadyDecided(decisions) => decisions,
        };
        self.engine.record_approvals(&self.session, &calls, &decisions);
        self.logged = logged(&calls);
        // What was offered when the round began may be another tool by now.
        self.offer = self.engine.offer(&self.agent, &self.tools).await;
        let ready = self.apply(&mut calls, &decisions).await;
        Box::pin(self.run_round(calls, ready, Opening::default())).await
    }

    /// Brings the answers to the calls that waited for them; answers what may run now.
    pub(crate) async fn apply(&mut self, calls: &mut [CallProgress], decisions: &[Approval]) -> Ready {
        let mut ready = Ready::new();
        for (index, progress) in calls.iter_mut().enumerate().filter(|(_, progress)| progress.outcome.is_none()) {
            let decision = decisions.iter().find(|known| Some(known.id.as_str()) == progress.approval_id.as_deref());
            progress.decision = decision.map(|decision| decision.status);
            let input = match self.decided(progress, decision) {
                Ok(schema) => {
                    let input = schema.validate(&progress.call.input).await;
                    input.map_err(|problem| self.misfit(&progress.call.name, problem))
                }
                Err(outcome) => Err(outcome),
            };
            match input {
                Ok(input) => ready.push_back((index, input)),
                Err(outcome) => progress.outcome = Some(outcome),
            }
        }
        ready
    }

    /// What an answer means: what the input must still fit to be run, or what the model is told instead.
    pub(crate) fn decided(&self, progress: &CallProgress, decision: Option<&Approval>) -> Result<InputSchema, Outcome> {
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
        let tool = self.offer.find(&progress.call.name).ok_or_else(|| Outcome::failed("the tool is gone by now"))?;
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

    /// Whether a call asks first: `None` if not, else the sources of the untrusted text because of which it does, of
    /// which there are none where the conversation or the settings demand it.
    pub(crate) async fn reason_to_ask(&self, tool: &dyn Tool, input: &Map<String, Value>) -> Option<Sources> {
        let is_cautious = self.engine.settings.security().after_untrusted_text == AfterUntrustedText::Ask;
        let sources = self.prompt.sources();
        if is_cautious && !sources.is_empty() && self.is_consequential(tool, input).await {
            return Some(sources.clone());
        }
        self.must_ask(tool.description()).then(Sources::default)
    }

    /// Whether a call does something outside the agent's own data that the user did not name.
    async fn is_consequential(&self, tool: &dyn Tool, input: &Map<String, Value>) -> bool {
        match tool.consequence(input, &self.agent).await {
            Consequence::Contained => false,
            Consequence::Requests(url) => {
                let is_named = url.host_str().is_some_and(|host| self.prompt.names_host(host));
                let is_external =
                    |name: &str| self.offer.find(name).is_some_and(|tool| tool.output_author() != Author::Trusted);
                !is_named && !self.prompt.knows_address(&url, is_external)
            }
            Consequence::SendsTo(host) => !self.prompt.names_host(&host),
            Consequence::Acts => true,
        }
    }

    fn must_ask(&self, description: &ToolDescription) -> bool {
        let security = self.engine.settings.security();
        let is_named = security.approval_tools.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => description.name.starts_with(start),
            None => description.name == *pattern,
        });
        is_named || description.effect == Effect::Acts && !matches!(self.tools, ToolUse::Free)
    }

    /// Takes up a round whose approvals are decided.
    pub(crate) async fn resume_round(
        &mut self,
        mut calls: Vec<CallProgress>,
        decisions: &[Approval],
    ) -> Result<AfterTools, GivenUp> {
        let ready = self.apply(&mut calls, decisions).await;
        self.run_round(calls, ready, Opening { unpark: true, ..Opening::default() }).await
    }
}
