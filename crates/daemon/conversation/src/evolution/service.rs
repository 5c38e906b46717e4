//! Evolution service: counts finished turns, applies decisions on proposals, and cleans up after deleted agents.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, WorkQueue, WorkerReport};
use agentd_engine::agents::{
    Agent, AgentDataOwner, AgentId, Agents, EvolutionChoice, ReplaceInstructions, VersionSource,
};
use agentd_engine::engine::{
    Approval, ApprovalHandler, ApprovalStatus, Engine, RequestApproval, Session, SessionStatus, TurnObserver,
};
use agentd_store::{NewItem, StoreError, Tx};
use futures_util::future::LocalBoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::model::{PROPOSAL_TTL, Proposal, TURNS_PER_REVIEW};
use super::store;
use super::utterance::RecentUtterances;

/// Maximum number of concurrent reviews, kept low in favor of the owner's turns.
const MAX_CONCURRENT_REVIEWS: usize = 2;

pub(super) const QUEUE: &str = "evolution";
/// Kind of its approvals, also shown as the tool.
pub(super) const KIND: &str = "evolution";
/// Maximum number of agents counted between two writes; exceeds the number of possible agents.
const MAX_COUNTED: usize = 20_000;
const COUNT_BATCH_SIZE: usize = 100;
/// Minimum interval between two writes of the counts, and so between two reviews of an agent.
pub(super) const COUNT_INTERVAL: Duration = Duration::from_secs(60);
const OUTDATED_REASON: &str = "the agent's instructions changed after this proposal, so it was not applied; the agent \
    will make a new proposal based on its current instructions";

struct Inner {
    context: AppContext,
    agents: Agents,
    engine: Engine,
    utterances: Arc<dyn RecentUtterances>,
    counted: Mutex<HashMap<AgentId, u32>>,
    count_wake: Arc<Notify>,
    /// Time of the last write of the counts.
    counted_at: Mutex<Option<Timestamp>>,
    queue: WorkQueue,
}

/// Service for reviews and changes of agents' instructions. Cheap to clone.
#[derive(Clone)]
pub struct Evolution(Arc<Inner>);

impl std::fmt::Debug for Evolution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evolution").finish_non_exhaustive()
    }
}

impl Evolution {
    pub fn new(
        context: AppContext,
        agents: Agents,
        engine: Engine,
        utterances: Arc<dyn RecentUtterances>,
    ) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner {
            queue: WorkQueue::new(&context, QUEUE, MAX_CONCURRENT_REVIEWS),
            context,
            agents,
            engine,
            utterances,
            counted: Mutex::default(),
            count_wake: Arc::default(),
            counted_at: Mutex::default(),
        })))
    }

    /// Persists a batch of counts and enqueues agents with enough turns. The report says whether more follow.
    pub(super) async fn write_counts(&self) -> Result<WorkerReport, StoreError> {
        let batch: Arc<Vec<(AgentId, u32)>> = {
            let mut counted = self.0.counted.lock();
            let ids: Vec<AgentId> = counted.keys().take(COUNT_BATCH_SIZE).cloned().collect();
            Arc::new(ids.into_iter().filter_map(|id| counted.remove_entry(&id)).collect())
        };
        if batch.is_empty() {
            return Ok(WorkerReport::IDLE);
        }
        let items = batch.len() as u64;
        *self.0.counted_at.lock() = Some(self.0.context.clock.now());
        let (evolution, written) = (self.clone(), Arc::clone(&batch));
        let written = self
            .0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                for (agent, turns) in written.iter() {
                    evolution.write_count(tx, agent, *turns).await?;
                }
                Ok::<_, StoreError>(())
            })
            .await;
        match written {
            Ok(()) => Ok(WorkerReport { items, has_more: !self.0.counted.lock().is_empty() }),
            Err(error) => {
                for (agent, turns) in batch.iter() {
                    self.count(agent, *turns);
                }
                Err(error)
            }
        }
    }

    async fn write_count(&self, tx: &mut Tx, agent: &AgentId, turns: u32) -> Result<(), StoreError> {
        let found = self.0.agents.find_live(tx, agent).await?;
        if found.is_none_or(|found| found.evolution_choice == EvolutionChoice::Off) {
            return Ok(());
        }
        if store::add_turns(tx, agent, turns).await? < TURNS_PER_REVIEW {
            return Ok(());
        }
        tx.enqueue(NewItem {
            queue: QUEUE.to_owned(),
            dedup_key: Some(agent.to_string()),
            payload: json!({ "agent_id": agent }),
            run_at: tx.clock().now(),
            // The worker limits the attempts.
            max_attempts: u32::MAX,
        })
        .await?;
        Ok(())
    }

    /// Counts turns and returns the number of unpersisted turns of the agent.
    fn count(&self, agent: &AgentId, turns: u32) -> u32 {
        let mut counted = self.0.counted.lock();
        if counted.len() >= MAX_COUNTED && !counted.contains_key(agent) {
            return 0;
        }
        let count = counted.entry(agent.clone()).or_default();
        *count = count.saturating_add(turns);
        *count
    }

    fn is_interval_over(&self) -> bool {
        let now = self.0.context.clock.now();
        // A clock that was set back must not extend the interval.
        self.0.counted_at.lock().is_none_or(|at| now < at || now >= at + COUNT_INTERVAL)
    }

    /// Applies a proposal or requests approval, depending on the agent's setting.
    pub(super) async fn propose(
        &self,
        tx: &mut Tx,
        agent: &Agent,
        choice: EvolutionChoice,
        proposal: &Proposal,
    ) -> Result<(), StoreError> {
        let approvals = self.0.engine.approvals();
        if let Some(pending) = approvals.find_pending(tx, KIND, &agent.id).await? {
            if choice != EvolutionChoice::Auto && is_based_on(&pending.input, agent) {
                return Ok(());
            }
            approvals.withdraw(tx, &pending.id, OUTDATED_REASON).await?;
        }
        if choice == EvolutionChoice::Auto {
            let wanted = ReplaceInstructions {
                instructions: proposal.instructions.clone(),
                previous: agent.instructions().to_owned(),
                source: VersionSource::Evolution,
                reason: Some(proposal.reason.clone()),
            };
            return self.0.agents.replace_instructions(tx, &agent.id, &wanted).await.map(|_| ());
        }
        let wanted = RequestApproval {
            kind: KIND,
            agent_id: agent.id.clone(),
            tool: KIND.to_owned(),
            input: json!({
                "agent": agent.svc_name,
                "instructions": proposal.instructions,
                "previous": agent.instructions(),
                "reason": proposal.reason,
            }),
            ttl: PROPOSAL_TTL,
        };
        approvals.request(tx, &wanted).await.map(|_| ())
    }

    /// Waits for running reviews and persists the counts. The engine must be drained first.
    pub async fn drain(&self, grace: Duration) {
        self.0.queue.drain(grace).await;
        loop {
            match self.write_counts().await {
                Ok(report) if report.has_more => {}
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%error, "failed to store turn counts for evolution");
                    return;
                }
            }
        }
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn agents(&self) -> &Agents {
        &self.0.agents
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(super) fn utterances(&self) -> &dyn RecentUtterances {
        &*self.0.utterances
    }

    pub(super) fn count_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.count_wake)
    }

    pub(super) fn queue(&self) -> &WorkQueue {
        &self.0.queue
    }
}

/// Returns whether a proposal was made from the agent's current instructions.
pub(super) fn is_based_on(input: &Value, agent: &Agent) -> bool {
    input["previous"].as_str() == Some(agent.instructions())
}

/// Reads the replacement from an approval.
fn replacement(approval: &Approval) -> ReplaceInstructions {
    let field = |name: &str| approval.input[name].as_str().unwrap_or_default().to_owned();
    ReplaceInstructions {
        instructions: field("instructions"),
        previous: field("previous"),
        source: VersionSource::Evolution,
        reason: Some(field("reason")),
    }
}

impl TurnObserver for Evolution {
    fn turn_ended(&self, session: &Session, status: SessionStatus, _reason: Option<&str>) {
        // Turns without a conversation are welcomes and reviews.
        if status != SessionStatus::Done || session.conversation_id.is_none() {
            return;
        }
        if u64::from(self.count(&session.agent_id, 1)) >= TURNS_PER_REVIEW && self.is_interval_over() {
            self.0.count_wake.notify_one();
        }
    }
}

impl ApprovalHandler for Evolution {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn decided<'t>(&'t self, tx: &'t mut Tx, approval: &'t Approval) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(async move {
            if approval.status != ApprovalStatus::Approved {
                return Ok(());
            }
            let is_taken = self.0.agents.replace_instructions(tx, &approval.agent_id, &replacement(approval)).await?;
            // `objection` ran in this transaction.
            if is_taken { Ok(()) } else { Err(StoreError::Contended) }
        })
    }

    fn objection<'t>(
        &'t self,
        tx: &'t mut Tx,
        approval: &'t Approval,
    ) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            let wanted = replacement(approval);
            Ok(match self.0.agents.find_live(tx, &approval.agent_id).await? {
                None => Some("the agent was deleted".to_owned()),
                Some(agent) if agent.instructions() != wanted.previous => Some(OUTDATED_REASON.to_owned()),
                Some(agent) if !self.0.agents.fits(&agent, &wanted.instructions) => Some(
                    "the agent's profile would be too large with these instructions; shorten other parts of it"
                        .to_owned(),
                ),
                Some(_) => None,
            })
        })
    }
}

impl AgentDataOwner for Evolution {
    fn name(&self) -> &'static str {
        "evolution"
    }

    fn hide<'t>(&'t self, tx: &'t mut Tx, agent: &'t AgentId) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(async move {
            let approvals = self.0.engine.approvals();
            if let Some(pending) = approvals.find_pending(tx, KIND, agent).await? {
                approvals.withdraw(tx, &pending.id, "the agent was deleted").await?;
            }
            store::delete_progress(tx, agent).await
        })
    }

    /// The row was deleted when the agent was hidden; a queue item of a missing agent completes itself.
    fn purge<'t>(
        &'t self,
        _tx: &'t mut Tx,
        _agent: &'t AgentId,
        _limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}
