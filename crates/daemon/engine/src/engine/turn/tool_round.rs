//! The tools of one round: ask where that is due, run side by side, store each step before it is
//! shown, and give the results back to the model in the order of its calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use agentd_base::{Timestamp, trace};
use agentd_core::runtime::Series;
use agentd_store::Tx;
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{End, GivenUp, Turn, stopped};
use crate::engine::error::EngineError;
use crate::engine::model::{
    Approval, Attempt, CallProgress, CallStatus, Outcome, PLAN, Round, SessionEvent, shown_source,
};
use crate::engine::session::persist::persist;
use crate::engine::spans::ToolSpan;
use crate::engine::store;
use crate::engine::tools::run_tool;
use crate::tools::{Author, InputSchema, ToolCallContext, fingerprint_of};
use crate::workspaces::UntrustedSource;

/// What follows a round of tools.
pub(crate) enum AfterTools {
    /// The model is asked again.
    Again,
    /// An owner is asked; somebody takes the turn up again when there is an answer.
    Parked,
    Ended(End),
}

/// What a round begins with, in one transaction.
#[derive(Default)]
pub(super) struct Opening {
    pub(super) events: Vec<SessionEvent>,
    pub(super) approvals: Vec<Approval>,
    pub(super) usages: Vec<Attempt>,
    /// The turn was parked; from here on it may not be taken up again from where it stood.
    pub(super) unpark: bool,
}

/// What came of a call that ran, and when.
type Over = (Outcome, Timestamp);

/// Calls that may run, in order, with their checked inputs.
pub(super) type Ready = VecDeque<(usize, Map<String, Value>)>;

impl Turn {
    /// Does what the model asked for. `usages` are those of the call that asked.
    pub(crate) async fn use_tools(&mut self, usages: Vec<Attempt>) -> Result<AfterTools, GivenUp> {
        self.count(&usages);
        let limit = self.engine.settings.agent().max_tool_rounds;
        let round = self.round();
        let mut calls: Vec<CallProgress> = std::mem::take(&mut self.log.calls)
            .into_iter()
            .enumerate()
            .map(|(index, mut call)| {
                let id = format!("{round}.{index}");
                // Some vendors leave it out, and models repeat themselves.
                if call.id.is_empty() {
                    call.id = format!("call_{round}_{index}");
                }
                CallProgress::new(id, call)
            })
            .collect();
        let used = self.rounds.iter().filter(|round| round.calls.iter().any(|call| call.tool != PLAN)).count();
        if used >= limit as usize {
            let text = std::mem::take(&mut self.log.round_text);
            self.rounds.push(Round { text, calls: Vec::new() });
            return self.write_usages(usages).await.map(|()| AfterTools::Ended(End::TooManyRounds(limit)));
        }
        let mut ready = Ready::new();
        let mut opening = Opening { usages, ..Opening::default() };
        for (index, progress) in calls.iter_mut().enumerate() {
            let input = match self.schema_of(&progress.call.name) {
                Ok(schema) => schema.validate(&progress.call.input).await,
                Err(problem) => Err(problem),
            };
            match input {
                Ok(input) => self.plan(index, progress, input, &mut ready, &mut opening).await,
                Err(problem) => progress.outcome = Some(self.misfit(&progress.call.name, problem)),
            }
        }
        self.run_round(calls, ready, opening).await
    }

    fn round(&self) -> u32 {
        u32::try_from(self.rounds.len()).unwrap_or(u32::MAX)
    }

    fn schema_of(&self, name: &str) -> Result<InputSchema, String> {
        if let Some(tool) = self.offer.find(name) {
            return Ok(tool.description().input_schema.clone());
        }
        let names: Vec<&str> = self.offer.iter().map(|tool| tool.description().name.as_str()).collect();
        Err(match names.is_empty() {
            true => "there is no such tool: no tools are offered in this conversation; answer in words".to_owned(),
            false => format!("there is no such tool; those there are: {}", names.join(", ")),
        })
    }

    /// An input that does not fit: the sentence repeats what the schema says, which others may have written.
    pub(super) fn misfit(&self, name: &str, problem: String) -> Outcome {
        let author = self.offer.find(name).map_or(Author::Trusted, |tool| tool.description_author());
        let source = match author {
            Author::Trusted => None,
            Author::Other(author) => Some(shown_source(&format!("{author} ({name})"))),
        };
        Outcome::failed(problem).with_source(source)
    }

    /// Decides what becomes of one call whose input fits.
    async fn plan(
        &mut self,
        index: usize,
        progress: &mut CallProgress,
        input: Map<String, Value>,
        ready: &mut Ready,
        opening: &mut Opening,
    ) {
        let Some(tool) = self.offer.find(&progress.call.name).cloned() else { return };
        let description = tool.description();
        let Some(sources) = self.reason_to_ask(tool.as_ref(), &input).await else {
            ready.push_back((index, input));
            return;
        };
        let input = Value::Object(input);
        let approval = self.engine.approvals.for_call(&self.session, &progress.id, &description.name, &input, sources);
        progress.approval_id = Some(approval.id.to_string());
        progress.tool_fingerprint = Some(fingerprint_of(tool.as_ref()));
        // What is shown is what runs.
        progress.call.input = input;
        let seq = self.log.number();
        let asked = SessionEvent::approval_request(seq, &progress.id, &approval);
        opening.events.push(asked.at(approval.requested_at));
        opening.approvals.push(approval);
        self.has_asked = true;
    }

    /// Runs what is ready, waits for what is not decided, and tells the model.
    pub(super) async fn run_round(
        &mut self,
        mut calls: Vec<CallProgress>,
        mut ready: Ready,
        mut opening: Opening,
    ) -> Result<AfterTools, GivenUp> {
        let (round, now) = (self.round(), self.engine.context.clock.now());
        // What was refused before it began is over at once.
        for progress in &calls {
            if let (Some(outcome), false) = (&progress.outcome, self.is_logged(&progress.id)) {
                let seq = self.log.number();
                if progress.approval_id.is_none() {
                    opening.events.push(SessionEvent::tool_use(seq, round, progress).at(now));
                    let seq = self.log.number();
                    opening.events.push(SessionEvent::tool_result(seq, round, progress, outcome).at(now));
                } else {
                    opening.events.push(SessionEvent::tool_result(seq, round, progress, outcome).at(now));
                }
            }
        }
        let cancelled = CancellationToken::new();
        // However this ends: what still runs is told.
        let _guard = cancelled.clone().drop_guard();
        let mut running = JoinSet::new();
        let most = self.engine.max_parallel_tools();
        let mut starting = self.take_ready(&mut ready, most, &mut calls, &mut opening.events);
        self.open_round(opening).await?;
        let mut stops = self.running.live.stops();
        loop {
            for (index, input) in starting.drain(..) {
                self.launch(&mut running, index, &calls[index], input, &cancelled);
            }
            if running.is_empty() {
                break;
            }
            let mut done: HashMap<usize, Over> = HashMap::new();
            tokio::select! {
                biased;
                stop = stopped(&mut stops) => {
                    cancelled.cancel();
                    running.shutdown().await;
                    self.keep_round(&calls);
                    return Ok(AfterTools::Ended(End::Stopped(stop)));
                }
                Some(finished) = running.join_next() => done.extend(finished.ok()),
            }
            // Those that ended at the same time share a write.
            while let Some(Ok(finished)) = running.try_join_next() {
                done.insert(finished.0, finished.1);
            }
            let mut events = Vec::with_capacity(2 * done.len());
            let mut order: Vec<usize> = done.keys().copied().collect();
            order.sort_unstable();
            for index in order {
                let Some((outcome, ended_at)) = done.remove(&index) else { continue };
                let seq = self.log.number();
                events.push(SessionEvent::tool_result(seq, round, &calls[index], &outcome).at(ended_at));
                calls[index].outcome = Some(outcome);
                calls[index].ended_at = Some(ended_at);
            }
            starting = self.take_ready(&mut ready, most.saturating_sub(running.len()), &mut calls, &mut events);
            if running.is_empty() && starting.is_empty() && calls.iter().all(|progress| progress.outcome.is_some()) {
                // The model need not wait until the last results are stored, only whoever follows.
                self.log.waiting.append(&mut events);
            } else {
                self.open_round(Opening { events, ..Opening::default() }).await?;
            }
        }
        if calls.iter().any(|progress| progress.outcome.is_none()) {
            return self.wait_for_approvals(calls).await;
        }
        self.keep_round(&calls);
        let text = self.rounds.last().map(|round| round.text.clone()).unwrap_or_default();
        self.prompt.push_round(&text, &calls, &self.engine.marker);
        if let Some(stop) = self.make_room().await {
            return Ok(AfterTools::Ended(End::Stopped(stop)));
        }
        match self.reserve_next().await {
            Ok(()) => Ok(AfterTools::Again),
            Err(error) => Ok(AfterTools::Ended(End::Failed(error))),
        }
    }

    /// Whether the result of a call stands in the log already: those of a turn that was parked.
    fn is_logged(&self, call_id: &str) -> bool {
        self.logged.iter().any(|logged| logged == call_id)
    }

    /// What is done of the round is kept with the reply, whatever comes.
    pub(crate) fn keep_round(&mut self, calls: &[CallProgress]) {
        let text = std::mem::take(&mut self.log.round_text);
        self.logged.clear();
        self.rounds.push(Round { text, calls: calls.iter().map(CallProgress::record).collect() });
    }

    /// The next calls to run, each with the event that says so.
    fn take_ready(
        &mut self,
        ready: &mut Ready,
        count: usize,
        calls: &mut [CallProgress],
        events: &mut Vec<SessionEvent>,
    ) -> Vec<(usize, Map<String, Value>)> {
        let count = count.min(ready.len());
        let (round, now) = (self.round(), self.engine.context.clock.now());
        ready
            .drain(..count)
            .map(|(index, input)| {
                let seq = self.log.number();
                events.push(SessionEvent::tool_use(seq, round, &calls[index]).at(now));
                calls[index].has_begun = true;
                calls[index].began_at = Some(now);
                (index, input)
            })
            .collect()
    }

    fn launch(
        &self,
        running: &mut JoinSet<(usize, Over)>,
        index: usize,
        progress: &CallProgress,
        input: Map<String, Value>,
        cancelled: &CancellationToken,
    ) {
        // It was there when the round was planned.
        let Some(tool) = self.offer.find(&progress.call.name).cloned() else { return };
        let context = match self.engine.agents.workspace(&self.agent) {
            Ok(workspace) => ToolCallContext {
                agent: Arc::clone(&self.agent),
                workspace,
                session_id: self.session.id.to_string(),
                conversation_id: self.session.conversation_id.clone(),
                call_id: format!("{}.{}", self.session.id, progress.id),
                cancelled: cancelled.child_token(),
                untrusted: UntrustedSource::default(),
                has_untrusted_text: !self.prompt.sources().is_empty(),
                approved: progress.tool_fingerprint.clone(),
            },
            Err(error) => {
                let over = (Outcome::failed(error.to_string()), self.engine.context.clock.now());
                running.spawn(async move { (index, over) });
                return;
            }
        };
        let (engine, span) = (Arc::clone(&self.engine), ToolSpan::begin(&self.engine, &self.session, progress));
        let work = async move {
            let began = Instant::now();
            let call = run_tool(&engine.tools, tool.as_ref(), input, context);
            let outcome = trace::within(Some(span.place()), call).await;
            let has_failed = outcome.status == CallStatus::Failed;
            engine.context.recorder.record(Series::Tool, &tool.description().name, began.elapsed(), has_failed);
            let ended_at = engine.context.clock.now();
            span.end(&engine, &outcome, ended_at);
            (index, (outcome, ended_at))
        };
        running.spawn(work.in_current_span());
    }

    /// Stores what a round begins or goes on with, and shows it.
    async fn open_round(&mut self, opening: Opening) -> Result<(), GivenUp> {
        let Opening { events: new, approvals, mut usages, unpark } = opening;
        usages.append(&mut self.unrecorded);
        let mut events = std::mem::take(&mut self.log.waiting);
        events.extend(new);
        if events.is_empty() && approvals.is_empty() && usages.is_empty() && !unpark {
            return Ok(());
        }
        // No call is under way when one is recorded.
        let reservation = if usages.is_empty() { None } else { self.reservation.take() };
        let has_reserved = reservation.is_some();
        let opening = Arc::new((events, approvals, usages, std::mem::take(&mut self.steps)));
        let (engine, session) = (&self.engine, &self.session);
        let write = || {
            let (here, session, opening) = (Arc::clone(engine), Arc::clone(session), Arc::clone(&opening));
            let is_full = unpark || !opening.1.is_empty();
            let body = async move |tx: &mut Tx| {
                let (events, approvals, usages, steps) = &*opening;
                // A deletion has closed what its agent had asked for; nothing is asked after it.
                if !approvals.is_empty() && !here.agents.is_alive(tx, &session.agent_id).await? {
                    return Err(EngineError::AgentGone);
                }
                if unpark {
                    store::parked::delete_state(tx, &session.id).await?;
                }
                store::insert_events(tx, &session.id, events).await?;
                for approval in approvals {
                    store::approvals::insert_approval(tx, approval).await?;
                }
                for usage in usages {
                    here.record_usage(tx, &session, usage).await?;
                }
                for step in steps {
                    store::steps::insert_step(tx, &session.id, step).await?;
                }
                if has_reserved {
                    here.providers.settle_reservation(tx, session.id.as_str()).await?;
                }
                Ok::<_, EngineError>(())
            };
            let db = engine.context.db.clone();
            async move { if is_full { db.write(body).await } else { db.write_relaxed(body).await } }
        };
        if let Err(error) = persist(engine, write).await {
            return Err((error, opening.2.clone()));
        }
        if let Some(reservation) = reservation {
            reservation.settled();
        }
        if !opening.1.is_empty() {
            engine.approvals.asked().notify_one();
        }
        self.show(opening.0.clone());
        Ok(())
    }

    async fn write_usages(&mut self, usages: Vec<Attempt>) -> Result<(), GivenUp> {
        self.open_round(Opening { usages, ..Opening::default() }).await
    }

    /// Stores and shows what waits in the log.
    pub(crate) async fn store_waiting(&mut self) -> Result<(), GivenUp> {
        self.open_round(Opening::default()).await
    }
}

/// The calls whose results stand in the log.
pub(crate) fn logged(calls: &[CallProgress]) -> Vec<String> {
    calls.iter().filter(|progress| progress.outcome.is_some()).map(|progress| progress.id.clone()).collect()
}
