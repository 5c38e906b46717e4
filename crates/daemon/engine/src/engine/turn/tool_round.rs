//! One round of tool calls. Calls that need it are submitted for approval; the others run concurrently. Each step is
//! stored before it is published. The model receives the results in the order of its calls.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use agentd_base::{Timestamp, trace};
use agentd_core::runtime::Series;
use agentd_core::settings::AfterUntrustedText;
use agentd_llm::ToolCall;
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::context::TurnContext;
use super::conversation::Conversation;
use super::log::{Halt, Log};
use super::persist::{Opening, store_progress};
use super::usage::UsageLedger;
use crate::engine::model::{
    Approval, ApprovalStatus, CallProgress, CallRecord, CallStatus, Outcome, SessionEvent, Sources, ToolUse,
    display_source, fingerprint,
};
use crate::engine::spans::ToolSpan;
use crate::engine::tools::run_tool;
use crate::tools::{
    Author, Consequence, Effect, InputSchema, Offer, Tool, ToolCallContext, ToolDescription, fingerprint_of,
};
use crate::workspaces::UntrustedSource;

/// The calls of a round and their progress.
pub(super) struct ToolRound {
    number: u32,
    calls: Vec<CallProgress>,
    /// Calls that are ready to run, in order, with their validated inputs.
    ready: VecDeque<(usize, Map<String, Value>)>,
    opening: Opening,
}

/// The index of a call that ran, its outcome, and when it ended.
type Finished = (usize, Outcome, Timestamp);

impl ToolRound {
    /// Validates the calls of an answer and decides which of them run, wait for approval or are refused.
    pub(super) async fn plan(
        context: &TurnContext,
        conversation: &Conversation,
        log: &mut Log,
        calls: Vec<ToolCall>,
    ) -> Self {
        let number = log.round();
        let mut round = Self { number, calls: Vec::new(), ready: VecDeque::new(), opening: Opening::default() };
        for (index, mut call) in calls.into_iter().enumerate() {
            // Some vendors omit the id, and models repeat ids.
            if call.id.is_empty() {
                call.id = format!("call_{number}_{index}");
            }
            round.calls.push(CallProgress::new(format!("{number}.{index}"), call));
        }
        for index in 0..round.calls.len() {
            let call = &round.calls[index].call;
            let input = match schema_of(&conversation.offer, &call.name) {
                Ok(schema) => schema.validate(&call.input).await,
                Err(problem) => Err(problem),
            };
            match input {
                Ok(input) => round.run_or_request_approval(context, conversation, log, index, input).await,
                Err(problem) => {
                    let outcome = invalid_input(&conversation.offer, &call.name, problem);
                    round.calls[index].outcome = Some(outcome);
                }
            }
        }
        round.log_refused(context, log, |_| true);
        round
    }

    /// Queues a call with a valid input, or requests an approval for it.
    async fn run_or_request_approval(
        &mut self,
        context: &TurnContext,
        conversation: &Conversation,
        log: &mut Log,
        index: usize,
        input: Map<String, Value>,
    ) {
        let progress = &mut self.calls[index];
        let Some(tool) = conversation.offer.find(&progress.call.name) else { return };
        let Some(sources) = approval_reason(context, conversation, tool.as_ref(), &input).await else {
            self.ready.push_back((index, input));
            return;
        };
        let (name, input) = (&tool.description().name, Value::Object(input));
        let approval = context.engine.approvals.for_call(&context.session, &progress.id, name, &input, sources);
        progress.approval_id = Some(approval.id.to_string());
        progress.tool_fingerprint = Some(fingerprint_of(tool.as_ref()));
        // The input shown to the owner is the input that runs.
        progress.call.input = input;
        log.add(|seq| SessionEvent::approval_request(seq, &progress.id, &approval).at(approval.requested_at));
        self.opening.approvals.push(approval);
    }

    /// Applies decisions to the calls that waited for them. `is_parked` is set if the turn is stored as waiting.
    pub(super) async fn resume(
        context: &TurnContext,
        conversation: &Conversation,
        log: &mut Log,
        mut calls: Vec<CallProgress>,
        decisions: &[Approval],
        is_parked: bool,
    ) -> Self {
        let offer = &conversation.offer;
        let mut ready = VecDeque::new();
        let open: Vec<usize> = (0..calls.len()).filter(|index| calls[*index].outcome.is_none()).collect();
        for &index in &open {
            let progress = &mut calls[index];
            let decision = decisions.iter().find(|known| Some(known.id.as_str()) == progress.approval_id.as_deref());
            progress.decision = decision.map(|decision| decision.status);
            let input = match check_decision(offer, progress, decision) {
                Ok(schema) => {
                    let input = schema.validate(&progress.call.input).await;
                    input.map_err(|problem| invalid_input(offer, &progress.call.name, problem))
                }
                Err(outcome) => Err(outcome),
            };
            match input {
                Ok(input) => ready.push_back((index, input)),
                Err(outcome) => progress.outcome = Some(outcome),
            }
        }
        let opening = Opening { unpark: is_parked, ..Opening::default() };
        let round = Self { number: log.round(), calls, ready, opening };
        round.log_refused(context, log, |index| open.contains(&index));
        round
    }

    /// Logs calls that were refused before they started.
    fn log_refused(&self, context: &TurnContext, log: &mut Log, is_new: impl Fn(usize) -> bool) {
        let now = context.engine.context.clock.now();
        for (_, progress) in self.calls.iter().enumerate().filter(|(index, _)| is_new(*index)) {
            let Some(outcome) = &progress.outcome else { continue };
            if progress.approval_id.is_none() {
                log.add(|seq| SessionEvent::tool_use(seq, self.number, progress).at(now));
            }
            log.add(|seq| SessionEvent::tool_result(seq, self.number, progress, outcome).at(now));
        }
    }

    pub(super) fn calls(&self) -> &[CallProgress] {
        &self.calls
    }

    pub(super) fn into_calls(self) -> Vec<CallProgress> {
        self.calls
    }

    /// Returns the calls as they are stored with the reply if the round ends now.
    pub(super) fn records(&self) -> impl Iterator<Item = CallRecord> {
        self.calls.iter().map(CallProgress::record)
    }

    /// Runs the calls that are ready. Returns whether all calls are complete; the others wait for approval.
    pub(super) async fn run(
        &mut self,
        context: &TurnContext,
        conversation: &Conversation,
        log: &mut Log,
        usage: &mut UsageLedger,
    ) -> Result<bool, Halt> {
        let cancelled = CancellationToken::new();
        // Signals running calls when this function returns for any reason.
        let _guard = cancelled.clone().drop_guard();
        let mut running = JoinSet::new();
        let max_parallel = context.engine.settings.strategy().max_parallel_tools as usize;
        let mut starting = self.take_ready(context, log, max_parallel);
        store_progress(context, log, usage, std::mem::take(&mut self.opening)).await?;
        let mut stopped = pin!(context.stopped());
        loop {
            for (index, input) in starting.drain(..) {
                self.spawn(context, conversation, &mut running, index, input, &cancelled);
            }
            if running.is_empty() {
                break;
            }
            let mut done: HashMap<usize, (Outcome, Timestamp)> = HashMap::new();
            tokio::select! {
                biased;
                stop = &mut stopped => {
                    cancelled.cancel();
                    running.shutdown().await;
                    log.end_round(self.records());
                    return Err(stop.into());
                }
                Some(finished) = running.join_next() => {
                    done.extend(finished.ok().map(|(index, outcome, ended_at)| (index, (outcome, ended_at))));
                }
            }
            // Calls that ended at the same time share a write.
            while let Some(Ok((index, outcome, ended_at))) = running.try_join_next() {
                done.insert(index, (outcome, ended_at));
            }
            let mut order: Vec<usize> = done.keys().copied().collect();
            order.sort_unstable();
            for index in order {
                let Some((outcome, ended_at)) = done.remove(&index) else { continue };
                let progress = &mut self.calls[index];
                log.add(|seq| SessionEvent::tool_result(seq, self.number, progress, &outcome).at(ended_at));
                progress.outcome = Some(outcome);
                progress.ended_at = Some(ended_at);
            }
            starting = self.take_ready(context, log, max_parallel.saturating_sub(running.len()));
            // The model does not need to wait until the last results are stored; only followers do.
            if !(running.is_empty() && starting.is_empty() && self.is_over()) {
                store_progress(context, log, usage, Opening::default()).await?;
            }
        }
        Ok(self.is_over())
    }

    fn is_over(&self) -> bool {
        self.calls.iter().all(|progress| progress.outcome.is_some())
    }

    /// Takes the next calls to run and logs their start events.
    fn take_ready(
        &mut self,
        context: &TurnContext,
        log: &mut Log,
        max_parallel: usize,
    ) -> Vec<(usize, Map<String, Value>)> {
        let now = context.engine.context.clock.now();
        let starting: Vec<_> = self.ready.drain(..max_parallel.min(self.ready.len())).collect();
        for (index, _) in &starting {
            let progress = &mut self.calls[*index];
            log.add(|seq| SessionEvent::tool_use(seq, self.number, progress).at(now));
            progress.has_begun = true;
            progress.began_at = Some(now);
        }
        starting
    }

    fn spawn(
        &self,
        context: &TurnContext,
        conversation: &Conversation,
        running: &mut JoinSet<Finished>,
        index: usize,
        input: Map<String, Value>,
        cancelled: &CancellationToken,
    ) {
        let (progress, session) = (&self.calls[index], &context.session);
        // The tool existed when the round was planned.
        let Some(tool) = conversation.offer.find(&progress.call.name).cloned() else { return };
        let call = match context.engine.agents.workspace(&context.agent) {
            Ok(workspace) => ToolCallContext {
                agent: Arc::clone(&context.agent),
                workspace,
                session_id: session.id.to_string(),
                conversation_id: session.conversation_id.clone(),
                call_id: format!("{}.{}", session.id, progress.id),
                cancelled: cancelled.child_token(),
                untrusted: UntrustedSource::default(),
                has_untrusted_text: !conversation.prompt.sources().is_empty(),
                approved: progress.tool_fingerprint.clone(),
            },
            Err(error) => {
                let finished = (index, Outcome::failed(error.to_string()), context.engine.context.clock.now());
                running.spawn(async move { finished });
                return;
            }
        };
        let (engine, span) = (Arc::clone(&context.engine), ToolSpan::begin(&context.engine, session, progress));
        let work = async move {
            let began = Instant::now();
            let call = run_tool(&engine.tools, tool.as_ref(), input, call);
            let outcome = trace::with_context(Some(span.context()), call).await;
            let has_failed = outcome.status == CallStatus::Failed;
            engine.context.recorder.record(Series::Tool, &tool.description().name, began.elapsed(), has_failed);
            let ended_at = engine.context.clock.now();
            span.end(&engine, &outcome, ended_at);
            (index, outcome, ended_at)
        };
        running.spawn(work.in_current_span());
    }
}

fn schema_of(offer: &Offer, name: &str) -> Result<InputSchema, String> {
    if let Some(tool) = offer.find(name) {
        return Ok(tool.description().input_schema.clone());
    }
    let names: Vec<&str> = offer.iter().map(|tool| tool.description().name.as_str()).collect();
    Err(match names.is_empty() {
        true => "unknown tool: no tools are available in this conversation; answer in text".to_owned(),
        false => format!("unknown tool; available tools: {}", names.join(", ")),
    })
}

/// Outcome of a call with an invalid input. The message quotes the schema, which may be third-party text.
fn invalid_input(offer: &Offer, name: &str, problem: String) -> Outcome {
    let author = offer.find(name).map_or(Author::Trusted, |tool| tool.description_author());
    let source = match author {
        Author::Trusted => None,
        Author::Other(author) => Some(display_source(&format!("{author} ({name})"))),
    };
    Outcome::failed(problem).with_source(source)
}

/// Decides whether a call needs an approval; `None` if not. Otherwise returns the sources of the untrusted text that
/// made it necessary, or no sources if the conversation or the settings require it.
pub(super) async fn approval_reason(
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
    requires_approval(context, tool.description()).then(Sources::default)
}

/// Whether a call affects something outside the agent's own data that the user did not name.
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

fn requires_approval(context: &TurnContext, description: &ToolDescription) -> bool {
    let security = context.engine.settings.security();
    let is_named = security.approval_tools.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => description.name.starts_with(start),
        None => description.name == *pattern,
    });
    is_named || description.effect == Effect::Acts && !matches!(context.tools, ToolUse::Free)
}

/// Evaluates a decision: returns the schema that the input must still match, or the refusal that the model receives.
pub(super) fn check_decision(
    offer: &Offer,
    progress: &CallProgress,
    decision: Option<&Approval>,
) -> Result<InputSchema, Outcome> {
    let Some(decision) = decision else {
        return Err(Outcome::refused(CallStatus::Expired, "the approval was not decided"));
    };
    let because = decision.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match decision.status {
        ApprovalStatus::Approved => {}
        ApprovalStatus::Rejected => {
            return Err(Outcome::refused(CallStatus::Rejected, format!("the owner rejected the call{because}")));
        }
        _ => return Err(Outcome::refused(CallStatus::Expired, "the approval expired before it was decided")),
    }
    let tool = offer.find(&progress.call.name).ok_or_else(|| Outcome::failed("the tool no longer exists"))?;
    if fingerprint(&progress.call.name, &progress.call.input) != decision.input_sha256 {
        return Err(Outcome::failed("the call differs from the approved one, so it was not run"));
    }
    if progress.tool_fingerprint.as_ref().is_some_and(|approved| *approved != fingerprint_of(tool.as_ref())) {
        return Err(Outcome::failed(
            "the tool changed after the approval was requested, so it was not run; call it again",
        ));
    }
    Ok(tool.description().input_schema.clone())
}
