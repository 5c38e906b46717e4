//! Workers that persist turn counts and run reviews.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{
    AppContext, ItemFailure, ItemHandler, NextDue, WorkQueue, Worker, WorkerError, WorkerReport,
};
use agentd_engine::agents::{Agent, AgentError, AgentId, EvolutionChoice};
use agentd_engine::engine::{HistoryMessage, SessionId, StartTurn};
use agentd_store::{ItemStatus, Lease, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::Notify;

use super::model::{Answer, BACKOFF, MAX_ATTEMPTS, MAX_UTTERANCE_CHARACTERS, Proposal, TURNS_PER_REVIEW, parse_answer};
use super::service::{COUNT_INTERVAL, Evolution, KIND, QUEUE, is_based_on};
use super::utterance::{Author, Utterance};
use super::{prompt, store};

const PURGE_BATCH_SIZE: u32 = 100;
/// Maximum duration of the model call.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(180);
/// Fits maximum-length instructions in any script, with a reason; a truncated answer would lose their end.
const MAX_OUTPUT_TOKENS: u32 = 30_000;

/// Persists the turns counted by this daemon.
#[derive(Debug)]
pub(super) struct CountTurns(pub Evolution);

impl Worker for CountTurns {
    fn name(&self) -> &'static str {
        "evolution.count"
    }

    fn description(&self) -> &'static str {
        "Counts finished turns towards the next review of an agent."
    }

    fn interval(&self) -> Duration {
        COUNT_INTERVAL
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.count_wake())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Ends of turns wake the worker.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(self.0.write_counts().await?) }.boxed()
    }
}

/// Runs reviews, a few concurrently.
#[derive(Debug, Clone)]
pub(super) struct ProposeChanges(pub Evolution);

type Failure = ItemFailure<Infallible>;

#[derive(Deserialize)]
pub(super) struct Payload {
    agent_id: AgentId,
}

impl ItemHandler for ProposeChanges {
    type Item = Payload;
    type End = Infallible;
    const WORKER: &'static str = "evolution.propose";
    const DESCRIPTION: &'static str = "Asks models for changes to the instructions of agents.";
    const LEASE: Duration = Duration::from_secs(60);

    fn context(&self) -> &AppContext {
        self.0.context()
    }

    fn queue(&self) -> &WorkQueue {
        self.0.queue()
    }

    async fn handle(&self, lease: &Lease, Payload { agent_id }: &Payload) -> Result<(), Failure> {
        self.run_until_lost(lease, review(&self.0, lease, agent_id)).await
    }

    async fn record_failure(
        &self,
        tx: &mut Tx,
        lease: &Lease,
        Payload { agent_id }: &Payload,
        failure: &Failure,
    ) -> Result<(), StoreError> {
        let is_last = lease.attempt >= MAX_ATTEMPTS;
        tracing::info!(agent = %agent_id, error = failure.message, is_last, "evolution review failed");
        if !is_last {
            return tx.fail(lease, &failure.message, &BACKOFF).await.map(drop);
        }
        if let Some(progress) = store::find_progress(tx, agent_id).await? {
            store::reset_count(tx, agent_id, progress.turns, None).await?;
        }
        end_item(tx, lease).await
    }
}

/// Input of a review.
struct ReviewInput {
    agent: Arc<Agent>,
    /// Turn count when the input was read.
    turns: u64,
    read_at: Timestamp,
    utterances: Vec<Utterance>,
}

async fn review(evolution: &Evolution, lease: &Lease, agent_id: &AgentId) -> Result<(), Failure> {
    let Some(input) = collect_input(evolution, agent_id).await? else {
        let shared_lease = lease.clone();
        return Ok(evolution.context().db.write(async move |tx: &mut Tx| end_item(tx, &shared_lease).await).await?);
    };
    let text = ask_model(evolution, lease, &input).await?;
    let proposal = match parse_answer(&text, input.agent.instructions()) {
        Answer::Proposal(proposal) if evolution.agents().fits(&input.agent, &proposal.instructions) => Some(proposal),
        Answer::Proposal(_) => {
            tracing::info!(agent = %agent_id, "proposed instructions exceed the agent's profile");
            None
        }
        Answer::Nothing => None,
        Answer::Unusable(why) => {
            tracing::info!(agent = %agent_id, why, "answer of evolution review is unusable");
            None
        }
    };
    store_result(evolution, lease, input, proposal).await
}

/// Collects the input of a review; returns `None` if the agent must not be asked now. It is asked after further turns.
async fn collect_input(evolution: &Evolution, id: &AgentId) -> Result<Option<ReviewInput>, Failure> {
    let agent = match evolution.agents().get(id.as_str()).await {
        Ok(agent) if agent.evolution_choice != EvolutionChoice::Off => agent,
        Ok(_) | Err(AgentError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let read_at = evolution.context().clock.now();
    let mut read = evolution.context().db.read().await?;
    let progress = store::find_progress(&mut read, id).await?;
    let Some(progress) = progress.filter(|progress| progress.turns >= TURNS_PER_REVIEW) else { return Ok(None) };
    let pending = evolution.engine().approvals().find_pending(&mut read, KIND, id).await?;
    drop(read);
    let has_pending = pending.is_some_and(|pending| is_based_on(&pending.input, &agent));
    if has_pending && agent.evolution_choice == EvolutionChoice::Check {
        return Ok(None);
    }
    let mut utterances = evolution.utterances().newest(id, progress.considered_at, MAX_UTTERANCE_CHARACTERS).await?;
    if agent.evolution_choice == EvolutionChoice::Auto {
        utterances.retain(|one| one.author != Author::UnknownSender);
    }
    let has_owner = utterances.iter().any(|one| one.author == Author::Owner);
    Ok(has_owner.then_some(ReviewInput { agent, turns: progress.turns, read_at, utterances }))
}

async fn ask_model(evolution: &Evolution, lease: &Lease, input: &ReviewInput) -> Result<String, Failure> {
    let history = vec![
        HistoryMessage::Note(prompt::SYSTEM_PROMPT.to_owned()),
        HistoryMessage::User(prompt::question(input.agent.instructions(), &input.utterances)),
    ];
    let turn = StartTurn {
        max_output_tokens: Some(MAX_OUTPUT_TOKENS),
        ..StartTurn::auxiliary(Arc::clone(&input.agent), history)
    };
    let shared_lease = lease.clone();
    // A daemon that lost the lease does not call the model.
    let open = async move |tx: &mut Tx, _: &SessionId| {
        Ok::<_, Failure>(tx.heartbeat(&shared_lease, ProposeChanges::LEASE).await?)
    };
    evolution.engine().answer(turn, ANSWER_TIMEOUT, open).await
}

/// Stores the proposal, resets the count and completes the item in one transaction.
async fn store_result(
    evolution: &Evolution,
    lease: &Lease,
    input: ReviewInput,
    proposal: Option<Proposal>,
) -> Result<(), Failure> {
    let (shared, shared_lease) = (evolution.clone(), lease.clone());
    let store_result = async move |tx: &mut Tx| {
        end_item(tx, &shared_lease).await?;
        let reviewed_agent = &input.agent;
        let Some(agent) = shared.agents().find_live(tx, &reviewed_agent.id).await? else { return Ok(()) };
        if agent.evolution_choice == EvolutionChoice::Off {
            return store::delete_progress(tx, &agent.id).await;
        }
        // The instructions changed meanwhile, so the answer is discarded. The next turn triggers another review.
        if agent.instructions() != reviewed_agent.instructions() {
            return Ok(());
        }
        store::reset_count(tx, &agent.id, input.turns, Some(input.read_at)).await?;
        let Some(proposal) = &proposal else { return Ok(()) };
        // Input collected for manual review requires it, even if the setting changed to `auto`.
        let choice = match (reviewed_agent.evolution_choice, agent.evolution_choice) {
            (EvolutionChoice::Auto, EvolutionChoice::Auto) => EvolutionChoice::Auto,
            _ => EvolutionChoice::Check,
        };
        shared.propose(tx, &agent, choice, proposal).await
    };
    Ok(evolution.context().db.write::<_, StoreError, _>(store_result).await?)
}

/// Completes and removes the item: its key is the agent, which must be enqueueable again.
async fn end_item(tx: &mut Tx, lease: &Lease) -> Result<(), StoreError> {
    tx.complete(lease).await?;
    tx.purge_queue(QUEUE, ItemStatus::Done, Timestamp::from_micros(i64::MAX), PURGE_BATCH_SIZE).await.map(|_| ())
}
