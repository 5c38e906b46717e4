//! Approvals: actions that the owner must permit before they run.
//!
//! | state | by | next |
//! |---|---|---|
//! | – | a tool call that requires approval, or [`Approvals::request`] | pending |
//! | pending | the owner's decision | approved, rejected |
//! | pending | no decision before `expires_at` | expired |
//! | pending | its turn ended, or the action is no longer possible | cancelled |
//!
//! A decision is stored before it takes effect. The approved input is exactly what runs: the owner sees all of it, and
//! its hash is verified before the tool receives it. A tool that changed in the meantime needs a new approval.

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

/// Kind of approvals that a turn requests.
const TOOL: &str = "tool";
const MAX_REASON_CHARACTERS: usize = 2_000;
const EXPIRY_BATCH_SIZE: u32 = 100;
/// Retention of decided approvals.
const DECISION_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Request for an approval that no turn waits for.
#[derive(Debug, Clone)]
pub struct RequestApproval {
    /// [`ApprovalHandler::kind`] of the handler.
    pub kind: &'static str,
    pub agent_id: AgentId,
    /// Name displayed as the tool.
    pub tool: String,
    pub input: Value,
    pub ttl: Duration,
}

/// Handles decisions on approvals of its kind.
pub trait ApprovalHandler: Send + Sync {
    fn kind(&self) -> &'static str;

    /// Handles a decision in the transaction that stores it. May run more than once.
    fn decided<'t>(&'t self, tx: &'t mut Tx, approval: &'t Approval) -> LocalBoxFuture<'t, Result<(), StoreError>>;

    /// Returns the reason why the action is no longer possible, if so. Called before an approval is stored as approved;
    /// it is then cancelled with this reason instead.
    fn objection<'t>(
        &'t self,
        _tx: &'t mut Tx,
        _approval: &'t Approval,
    ) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Resumes the turn of a session.
pub(super) type WakeTurn = Arc<dyn Fn(SessionId) -> BoxFuture<'static, Result<(), EngineError>> + Send + Sync>;

/// All approvals. Cheap to clone.
#[derive(Clone)]
pub struct Approvals {
    context: AppContext,
    settings: Settings,
    wake: WakeTurn,
    handlers: Slot<dyn ApprovalHandler>,
    /// Notified when a turn requests an approval, which may expire before the worker's next run.
    requested: Arc<Notify>,
    next_sweep: Arc<NextDue>,
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approvals").finish_non_exhaustive()
    }
}

impl Approvals {
    pub(super) fn new(context: AppContext, settings: Settings, slots: &mut Slots, wake: WakeTurn) -> Self {
        Self {
            context,
            settings,
            wake,
            handlers: slots.create(),
            requested: Arc::default(),
            next_sweep: Arc::default(),
        }
    }

    /// Builds an approval for a tool call without storing it.
    /// `sources` are the sources of untrusted text that made it necessary.
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

    /// Notified when an approval requested by a turn is stored.
    pub(super) fn requested(&self) -> &Arc<Notify> {
        &self.requested
    }

    /// Latest time of the worker's next run.
    pub(super) fn next_sweep(&self) -> &NextDue {
        &self.next_sweep
    }

    /// Requests an approval that no turn waits for, in the caller's transaction. It expires up to 30 seconds late,
    /// because no turn is blocked.
    ///
    /// # Errors
    /// A store error.
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

    /// Returns the oldest pending approval of a kind for an agent.
    ///
    /// # Errors
    /// A store error.
    pub async fn find_pending(
        &self,
        read: &mut Read,
        kind: &str,
        agent: &AgentId,
    ) -> Result<Option<Approval>, StoreError> {
        store::find_pending(read, kind, agent).await
    }

    /// Returns up to `limit` pending approvals, newest first.
    ///
    /// # Errors
    /// A store error.
    pub async fn list_pending(&self, read: &mut Read, limit: u32) -> Result<Vec<Approval>, StoreError> {
        store::list_pending(read, self.context.clock.now(), limit).await
    }

    /// Returns up to `limit` approvals that are no longer pending, newest first.
    ///
    /// # Errors
    /// A store error.
    pub async fn list_decided(&self, read: &mut Read, limit: u32) -> Result<Vec<ApprovalId>, StoreError> {
        store::list_decided(read, self.context.clock.now(), limit).await
    }

    /// Whether an approval is pending and not expired.
    ///
    /// # Errors
    /// A store error.
    pub async fn is_pending(&self, id: ApprovalId) -> Result<bool, StoreError> {
        let now = self.context.clock.now();
        let found = store::find_approval(&mut self.context.db.read().await?, &id).await?;
        Ok(found.is_some_and(|found| found.status == ApprovalStatus::Pending && found.expires_at > now))
    }

    /// Cancels an approval that is still pending, in the caller's transaction.
    ///
    /// # Errors
    /// A store error.
    pub async fn withdraw(&self, tx: &mut Tx, id: &ApprovalId, reason: &str) -> Result<(), StoreError> {
        let now = tx.clock().now();
        store::decide(tx, id, ApprovalStatus::Cancelled, Some(reason), now).await.map(|_| ())
    }

    /// Returns a page of approvals, newest first, and their total number.
    ///
    /// # Errors
    /// A store error.
    pub async fn list(&self, status: Option<ApprovalStatus>, page: Page) -> Result<(Vec<Approval>, u64), EngineError> {
        let mut read = self.context.db.read_snapshot().await?;
        let now = self.context.clock.now();
        Ok(store::list_approvals(&mut read, status, now, page.limit, page.offset).await?)
    }

    /// Stores the owner's decision and resumes the waiting turn. `conversation_id`, if given, must be the approval's.
    ///
    /// # Errors
    /// `ApprovalNotFound`; `ApprovalAnswered` if it is already decided; `ApprovalExpired` if it has expired;
    /// `ApprovalVoid` if the action is no longer possible; or a store error.
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
        let (approvals, id, conversation_id) = (self.clone(), id.clone(), conversation_id.map(str::to_owned));
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
                    // Overdue, even if the expiry is not stored yet.
                    ApprovalStatus::Pending | ApprovalStatus::Expired => return Err(EngineError::ApprovalExpired),
                    status => return Err(EngineError::ApprovalAnswered { status }),
                }
                let objection = if is_approved { approvals.objection(tx, &approval).await? } else { None };
                let is_void = objection.is_some();
                approval.status = if is_void { ApprovalStatus::Cancelled } else { status };
                approval.reason = objection.or_else(|| reason.clone());
                approval.decided_at = Some(now);
                if !store::decide(tx, &id, approval.status, approval.reason.as_deref(), now).await? {
                    return Err(StoreError::Contended.into());
                }
                if !is_void {
                    approvals.notify_handler(tx, &approval).await?;
                }
                Ok(approval)
            })
            .await?;
        self.resume_turn(&decided).await;
        if decided.status == ApprovalStatus::Cancelled {
            return Err(EngineError::ApprovalVoid { reason: decided.reason.unwrap_or_default() });
        }
        Ok(decided)
    }

    fn handler(&self, approval: &Approval) -> Option<Arc<dyn ApprovalHandler>> {
        self.handlers.all().iter().find(|handler| handler.kind() == approval.kind).cloned()
    }

    async fn objection(&self, tx: &mut Tx, approval: &Approval) -> Result<Option<String>, StoreError> {
        match self.handler(approval) {
            Some(handler) => handler.objection(tx, approval).await,
            None => Ok(None),
        }
    }

    async fn notify_handler(&self, tx: &mut Tx, approval: &Approval) -> Result<(), StoreError> {
        match self.handler(approval) {
            Some(handler) => handler.decided(tx, approval).await,
            None => Ok(()),
        }
    }

    /// Resumes the turn that waited. If that fails, the worker resumes it.
    async fn resume_turn(&self, approval: &Approval) {
        let Some(session) = &approval.session_id else { return };
        if let Err(error) = (self.wake)(session.clone()).await {
            tracing::warn!(%session, %error, "approved turn deferred");
        }
    }

    /// Returns the earliest expiry of a pending approval.
    pub(super) async fn next_expiry(&self) -> Result<Option<Timestamp>, EngineError> {
        Ok(store::next_expiry(&mut self.context.db.read().await?).await?)
    }

    /// Expires overdue approvals and deletes old decisions; reports whether there may be more.
    pub(super) async fn sweep(&self) -> Result<WorkerReport, EngineError> {
        let approvals = self.clone();
        let expired = self
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let now = tx.clock().now();
                let expired = store::expire(tx, now, EXPIRY_BATCH_SIZE).await?;
                for approval in &expired {
                    approvals.notify_handler(tx, approval).await?;
                }
                store::delete_decided(tx, now - DECISION_RETENTION, EXPIRY_BATCH_SIZE).await?;
                Ok::<_, StoreError>(expired)
            })
            .await?;
        for approval in &expired {
            self.resume_turn(approval).await;
        }
        Ok(WorkerReport::batch(expired.len(), EXPIRY_BATCH_SIZE))
    }
}
