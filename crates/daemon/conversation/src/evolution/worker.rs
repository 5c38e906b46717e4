//! Counts turns, and asks agents that have talked enough what they learned.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{
    AppContext, HandlesItems, ItemFailure, NextDue, WorkQueue, Worker, WorkerError, WorkerReport,
};
use agentd_engine::agents::{Agent, AgentError, AgentId, EvolutionChoice};
use agentd_engine::engine::{HistoryMessage, SessionId, StartTurn};
use agentd_store::{ItemStatus, Lease, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::Notify;

use super::model::{Answer, BACKOFF, MAX_ATTEMPTS, MAX_UTTERANCE_CHARACTERS, Proposal, TURNS, read_answer};
use super::service::{Evolution, KIND, QUEUE, REST, is_made_from};
use super::utterance::{Author, Utterance};
use super::{prompt, store};

const ENDED_A_BATCH: u32 = 100;
/// A model that takes longer has no proposal.
const ANSWER_LIMIT: Duration = Duration::from_secs(180);
/// Instructions as long as they may be, in any script, with a reason: an answer that is cut off would lose their end.
const MOST_OUTPUT: u32 = 30_000;

/// Writes down how many turns this daemon has counted.
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
        REST
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.count_wake())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Ends of turns are written.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async { Ok(self.0.write_counts().await?) }.boxed()
    }
}

/// Asks agents what they learned, a few at once.
#[derive(Debug, Clone)]
pub(super) struct ProposeChanges(pub Evolution);

type Failure = ItemFailure<Infallible>;

#[derive(Deserialize)]
pub(super) struct Payload {
    agent_id: AgentId,
}

impl HandlesItems for ProposeChanges {
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
        self.hold(lease, consider(&self.0, lease, agent_id)).await
    }

    async fn record_failure(
        &self,
        tx: &mut Tx,
        lease: &Lease,
        Payload { agent_id }: &Payload,
        failure: &Failure,
    ) -> Result<(), StoreError> {
        let is_last = lease.attempt >= MAX_ATTEMPTS;
        tracing::info!(agent = %agent_id, error = failure.message, is_last, "an agent could not be asked what it learned");
        if !is_last {
            return tx.fail(lease, &failure.message, &BACKOFF).await.map(drop);
        }
        if let Some(progress) = store::find_progress(tx, agent_id).await? {
            store::count_anew(tx, agent_id, progress.turns, None).await?;
        }
        end_item(tx, lease).await
    }
}

/// What an agent is asked from.
struct Material {
    agent: Arc<Agent>,
    /// Turns that were counted when it was read.
    turns: u64,
    read_at: Timestamp,
    utterances: Vec<Utterance>,
}

async fn consider(evolution: &Evolution, lease: &Lease, agent_id: &AgentId) -> Result<(), Failure> {
    let Some(material) = gather(evolution, agent_id).await? else {
        let held = lease.clone();
        return Ok(evolution.context().db.write(async move |tx: &mut Tx| end_item(tx, &held).await).await?);
    };
    let text = ask(evolution, lease, &material).await?;
    let proposal = match read_answer(&text, material.agent.instructions()) {
        Answer::Proposal(proposal) if evolution.agents().fits(&material.agent, &proposal.instructions) => {
            Some(proposal)
        }
        Answer::Proposal(_) => {
            tracing::info!(agent = %agent_id, "what an agent wishes to be told does not fit into its profile");
            None
        }
        Answer::Nothing => None,
        Answer::Unusable(why) => {
            tracing::info!(agent = %agent_id, why, "an agent's answer to what it learned cannot be used");
            None
        }
    };
    settle(evolution, lease, material, proposal).await
}

/// What there is to learn from; `None` when the agent is not to be asked now. It is then asked when it
/// has talked more.
async fn gather(evolution: &Evolution, id: &AgentId) -> Result<Option<Material>, Failure> {
    let agent = match evolution.agents().get(id.as_str()).await {
        Ok(agent) if agent.evolution_choice != EvolutionChoice::Off => agent,
        Ok(_) | Err(AgentError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let read_at = evolution.context().clock.now();
    let mut read = evolution.context().db.read().await?;
    let progress = store::find_progress(&mut read, id).await?;
    let Some(progress) = progress.filter(|progress| progress.turns >= TURNS) else { return Ok(None) };
    let pending = evolution.engine().approvals().find_pending(&mut read, KIND, id).await?;
    drop(read);
    let waits = pending.is_some_and(|pending| is_made_from(&pending.input, &agent));
    if waits && agent.evolution_choice == EvolutionChoice::Check {
        return Ok(None);
    }
    let mut utterances = evolution.utterances().newest(id, progress.considered_at, MAX_UTTERANCE_CHARACTERS).await?;
    if agent.evolution_choice == EvolutionChoice::Auto {
        utterances.retain(|one| one.author != Author::Stranger);
    }
    let has_owner = utterances.iter().any(|one| one.author == Author::Owner);
    Ok(has_owner.then_some(Material { agent, turns: progress.turns, read_at, utterances }))
}

async fn ask(evolution: &Evolution, lease: &Lease, material: &Material) -> Result<String, Failure> {
    let history = vec![
        HistoryMessage::Note(prompt::RULES.to_owned()),
        HistoryMessage::User(prompt::question(material.agent.instructions(), &material.utterances)),
    ];
    let turn =
        StartTurn { max_output_tokens: Some(MOST_OUTPUT), ..StartTurn::aside(Arc::clone(&material.agent), history) };
    let held = lease.clone();
    // Whoever lost the lease does not ask.
    let open =
        async move |tx: &mut Tx, _: &SessionId| Ok::<_, Failure>(tx.heartbeat(&held, ProposeChanges::LEASE).await?);
    evolution.engine().answer(turn, ANSWER_LIMIT, open).await
}

/// What comes of the answer, the count that starts anew, and the end of the item: all or nothing.
async fn settle(
    evolution: &Evolution,
    lease: &Lease,
    material: Material,
    proposal: Option<Proposal>,
) -> Result<(), Failure> {
    let (here, held) = (evolution.clone(), lease.clone());
    let settle = async move |tx: &mut Tx| {
        end_item(tx, &held).await?;
        let asked = &material.agent;
        let Some(agent) = here.agents().find_living(tx, &asked.id).await? else { return Ok(()) };
        if agent.evolution_choice == EvolutionChoice::Off {
            return store::delete_progress(tx, &agent.id).await;
        }
        // Changed meanwhile: the answer fits no more. The next turn brings the question again.
        if agent.instructions() != asked.instructions() {
            return Ok(());
        }
        store::count_anew(tx, &agent.id, material.turns, Some(material.read_at)).await?;
        let Some(proposal) = &proposal else { return Ok(()) };
        // What was gathered to be looked at is looked at.
        let choice = match (asked.evolution_choice, agent.evolution_choice) {
            (EvolutionChoice::Auto, EvolutionChoice::Auto) => EvolutionChoice::Auto,
            _ => EvolutionChoice::Check,
        };
        here.propose(tx, &agent, choice, proposal).await
    };
    Ok(evolution.context().db.write::<_, StoreError, _>(settle).await?)
}

/// Ends an item, and takes it out of the queue: it names the agent, which is to be asked again one day.
async fn end_item(tx: &mut Tx, lease: &Lease) -> Result<(), StoreError> {
    tx.complete(lease).await?;
    tx.purge_queue(QUEUE, ItemStatus::Done, Timestamp::from_micros(i64::MAX), ENDED_A_BATCH).await.map(|_| ())
}
