//! What an owner is asked before it happens.
//!
//! | state | by | next |
//! |---|---|---|
//! | – | a tool that must ask, or [`Approvals::request`] | pending |
//! | pending | the owner's answer | approved, rejected |
//! | pending | nobody answered in time | expired |
//! | pending | its turn ended otherwise, or it cannot happen any more | cancelled |
//!
//! An answer is stored before anything comes of it. What is approved is exactly what runs: the
//! whole input is shown, and held against its hash again before the tool gets it; a tool that was
//! changed meanwhile is another one, and must be asked for again.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Page, Timestamp};
use agentd_core::runtime::{AppContext, NextDue, Slot, Slots, WorkerReport};
use agentd_core::settings::Settings;
use agentd_store::{Read, StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};
use serde_json::Value;
use tokio::sync::Notify;

use crate::agents::AgentId;
use crate::engine::error::EngineError;
use crate::engine::model::{Approval, ApprovalId, ApprovalStatus, Session, SessionId, Sources, fingerprint};
use crate::engine::store::approvals as store;

/// The kind of those that a turn asks for.
const TOOL: &str = "tool";
const MAX_REASON_CHARACTERS: usize = 2_000;
const EXPIRED_A_BATCH: u32 = 100;
/// How long decisions are kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An approval that no turn waits for.
#[derive(Debug, Clone)]
pub struct RequestApproval {
    /// The [`DecidesApproval::kind`] of who acts on the answer.
    pub kind: &'static str,
    pub agent_id: AgentId,
    /// What is shown as the tool.
    pub tool: String,
    pub input: Value,
    pub ttl: Duration,
}

/// Acts on answers to approvals of its kind.
pub trait DecidesApproval: Send + Sync {
    fn kind(&self) -> &'static str;

    /// Runs in the transaction that stores the answer, so it happens with it or not at all; may run
    /// more than once.
    fn decided<'t>(&'t self, tx: &'t mut Tx, approval: &'t Approval) -> LocalBoxFuture<'t, Result<(), StoreError>>;

    /// Why it cannot happen any more, where that is so: asked before an approval is stored, which is
    /// then cancelled instead, with this sentence.
    fn objection<'t>(
        &'t self,
        _tx: &'t mut Tx,
        _approval: &'t Approval,
    ) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Lets the turn of a session go on.
pub(super) type WakeTurn = Arc<dyn Fn(SessionId) -> BoxFuture<'static, Result<(), EngineError>> + Send + Sync>;

/// Every approval. Cheap to clone.
#[derive(Clone)]
pub struct Approvals {
    context: AppContext,
    settings: Settings,
    wake: WakeTurn,
    deciders: Slot<dyn DecidesApproval>,
    /// A turn asks for something: it may expire before what the worker waits for.
    asked: Arc<Notify>,
    next_look: Arc<NextDue>,
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approvals").finish_non_exhaustive()
    }
}

impl Approvals {
    pub(super) fn new(context: AppContext, settings: Settings, slots: &mut Slots, wake: WakeTurn) -> Self {
        Self { context, settings, wake, deciders: slots.create(), asked: Arc::default(), next_look: Arc::default() }
    }

    /// An approval for a call of a tool, not stored yet.
    /// `sources` are those of the untrusted text because of which it asks.
    pub(super) fn for_call(
        &self,
        session: &Session,
        call_id: &str,
        tool: &str,
        input: &Value,
        sources: Sources,
    ) -> Approval {
        let ttl = Duration::from_secs(u64::from(self.settings.security().approval_ttl_seconds));
        let now = self.context.clock.now();
        Approval {
            id: ApprovalId::generate(&self.context.ids),
            kind: TOOL.to_owned(),
            agent_id: session.agent_id.clone(),
            session_id: Some(session.id.clone()),
            conversation_id: session.conversation_id.clone(),
            call_id: Some(call_id.to_owned()),
            tool: tool.to_owned(),
            input: input.clone(),
            input_sha256: fingerprint(tool, input),
            status: ApprovalStatus::Pending,
            request_reason: sources.reason(),
            untrusted_sources: sources,
            reason: None,
            requested_at: now,
            expires_at: now + ttl,
            decided_at: None,
        }
    }

    /// Told when what a turn asks for is stored.
    pub(super) fn asked(&self) -> &Arc<Notify> {
        &self.asked
    }

    /// When the worker looks again at the latest.
    pub(super) fn next_look(&self) -> &NextDue {
        &self.next_look
    }

    /// Asks for something that no turn waits for, with the caller's own change. It expires within half a minute of its
    /// time: nobody is blocked meanwhile.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn request(&self, tx: &mut Tx, wanted: &RequestApproval) -> Result<Approval, StoreError> {
        let now = tx.clock().now();
        let approval = Approval {
            id: ApprovalId::generate(&self.context.ids),
            kind: wanted.kind.to_owned(),
            agent_id: wanted.agent_id.clone(),
            session_id: None,
            conversation_id: None,
            call_id: None,
            tool: wanted.tool.clone(),
            input: wanted.input.clone(),
            input_sha256: fingerprint(&wanted.tool, &wanted.input),
            status: ApprovalStatus::Pending,
            untrusted_sources: Sources::default(),
            request_reason: None,
            reason: None,
            requested_at: now,
            expires_at: now + wanted.ttl,
            decided_at: None,
        };
        store::insert_approval(tx, &approval).await?;
        Ok(approval)
    }

    /// The oldest of a kind that waits for an agent's owner.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn find_pending(
        &self,
        read: &mut Read,
        kind: &str,
        agent: &AgentId,
    ) -> Result<Option<Approval>, StoreError> {
        store::find_pending(read, kind, agent).await
    }

    /// Those that wait for an answer, the newest first, at most `limit`.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn waiting(&self, read: &mut Read, limit: u32) -> Result<Vec<Approval>, StoreError> {
        store::list_waiting(read, self.context.clock.now(), limit).await
    }

    /// Those that wait for no answer any more, the newest first, at most `limit`.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn answered(&self, read: &mut Read, limit: u32) -> Result<Vec<ApprovalId>, StoreError> {
        store::list_answered(read, self.context.clock.now(), limit).await
    }

    /// Whether an approval waits for its answer.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn waits(&self, id: ApprovalId) -> Result<bool, StoreError> {
        let now = self.context.clock.now();
        let found = store::find_approval(&mut self.context.db.read().await?, &id).await?;
        Ok(found.is_some_and(|found| found.status == ApprovalStatus::Pending && found.expires_at > now))
    }

    /// Takes back what still waits, with the caller's own change.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn withdraw(&self, tx: &mut Tx, id: &ApprovalId, reason: &str) -> Result<(), StoreError> {
        let now = tx.clock().now();
        store::decide(tx, id, ApprovalStatus::Cancelled, Some(reason), now).await.map(|_| ())
    }

    /// The newest first, with how many there are.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn list(&self, status: Option<ApprovalStatus>, page: Page) -> Result<(Vec<Approval>, u64), EngineError> {
        let mut read = self.context.db.read_snapshot().await?;
        let now = self.context.clock.now();
        Ok(store::list_approvals(&mut read, status, now, page.limit, page.offset).await?)
    }

    /// Stores the owner's answer and lets go on what waited for it. `conversation_id`, where given,
    /// must be the approval's.
    ///
    /// # Errors
    /// `ApprovalNotFound`, `ApprovalAnswered` when there is an answer already, `ApprovalExpired` when its time is
    /// over, `ApprovalVoid` when it cannot happen any more, or the store's refusal.
    pub async fn decide(
        &self,
        id: &ApprovalId,
        conversation_id: Option<&str>,
        is_approved: bool,
        reason: Option<String>,
    ) -> Result<Approval, EngineError> {
        let status = if is_approved { ApprovalStatus::Approved } else { ApprovalStatus::Rejected };
        let reason = reason.map(|reason| reason.trim().chars().take(MAX_REASON_CHARACTERS).collect::<String>());
        let reason = reason.filter(|reason| !reason.is_empty());
        let (here, id, conversation_id) = (self.clone(), id.clone(), conversation_id.map(str::to_owned));
        let decided = self
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let not_found = || EngineError::ApprovalNotFound { id: id.as_str().chars().take(80).collect() };
                let found = store::find_approval(tx, &id).await?;
                let mut approval = found
                    .filter(|found| conversation_id.is_none() || found.conversation_id == conversation_id)
                    .ok_or_else(not_found)?;
                let now = tx.clock().now();
                match approval.status {
                    ApprovalStatus::Pending if approval.expires_at > now => {}
                    // Overdue, whether or not that is written down yet.
                    ApprovalStatus::Pending | ApprovalStatus::Expired => return Err(EngineError::ApprovalExpired),
                    status => return Err(EngineError::ApprovalAnswered { status }),
                }
                let objection = if is_approved { here.objection(tx, &approval).await? } else { None };
                let is_void = objection.is_some();
                approval.status = if is_void { ApprovalStatus::Cancelled } else { status };
                approval.reason = objection.or_else(|| reason.clone());
                approval.decided_at = Some(now);
                if !store::decide(tx, &id, approval.status, approval.reason.as_deref(), now).await? {
                    return Err(StoreError::Contended.into());
                }
                if !is_void {
                    here.tell(tx, &approval).await?;
                }
                Ok(approval)
            })
            .await?;
        self.go_on(&decided).await;
        if decided.status == ApprovalStatus::Cancelled {
            return Err(EngineError::ApprovalVoid { reason: decided.reason.unwrap_or_default() });
        }
        Ok(decided)
    }

    fn decider(&self, approval: &Approval) -> Option<Arc<dyn DecidesApproval>> {
        self.deciders.all().iter().find(|decider| decider.kind() == approval.kind).cloned()
    }

    async fn objection(&self, tx: &mut Tx, approval: &Approval) -> Result<Option<String>, StoreError> {
        match self.decider(approval) {
            Some(decider) => decider.objection(tx, approval).await,
            None => Ok(None),
        }
    }

    async fn tell(&self, tx: &mut Tx, approval: &Approval) -> Result<(), StoreError> {
        match self.decider(approval) {
            Some(decider) => decider.decided(tx, approval).await,
            None => Ok(()),
        }
    }

    /// Wakes the turn that waited. Should that fail, the worker finds it.
    async fn go_on(&self, approval: &Approval) {
        let Some(session) = &approval.session_id else { return };
        if let Err(error) = (self.wake)(session.clone()).await {
            tracing::warn!(%session, %error, "a turn that was approved goes on later");
        }
    }

    /// When the next one expires.
    pub(super) async fn next_expiry(&self) -> Result<Option<Timestamp>, EngineError> {
        Ok(store::next_expiry(&mut self.context.db.read().await?).await?)
    }

    /// Lets overdue ones expire and forgets old answers; answers whether there may be more.
    pub(super) async fn sweep(&self) -> Result<WorkerReport, EngineError> {
        let here = self.clone();
        let expired = self
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let now = tx.clock().now();
                let expired = store::expire(tx, now, EXPIRED_A_BATCH).await?;
                for approval in &expired {
                    here.tell(tx, approval).await?;
                }
                store::delete_decided(tx, now - KEPT, EXPIRED_A_BATCH).await?;
                Ok::<_, StoreError>(expired)
            })
            .await?;
        for approval in &expired {
            self.go_on(approval).await;
        }
        Ok(WorkerReport::batch(expired.len(), EXPIRED_A_BATCH))
    }
}
