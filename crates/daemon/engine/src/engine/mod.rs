//! The engine runs turns of agents. It is used by chats, the scheduler, webhooks and channels. Each turn has an event
//! log that any number of clients can follow.
//!
//! Invariants
//! - The request and its session are stored in one transaction. No part of the reply is published before the commit;
//!   the model call runs concurrently.
//! - Every event is stored before it is published. Its sequence number is its id; the numbers have no gaps.
//! - The end of a turn (last event, status, usage rows, the reply that the caller stores) is one transaction.
//! - A turn is independent of its clients: a disconnect does not stop it, and a slow follower does not delay it.
//! - A conversation has at most one running turn, enforced by a unique index.
//! - A session is owned through a lease. A process that lost the lease stops writing.
//!
//! | state | by | next |
//! |---|---|---|
//! | – | [`Engine::start`] | running |
//! | running | the model completed its answer | done |
//! | running | the model or the store failed | failed |
//! | running | a tool needs an approval, and nothing else is left to do | running, waiting |
//! | running | [`Engine::cancel`], or its agent or conversation was deleted | cancelled |
//! | running | the daemon was stopped or killed; the lease ended | interrupted |
//!
//! Retries: a call that failed before its first chunk with `overloaded`, `provider_unavailable` or `rate_limit` is
//! retried once. The delay is `Retry-After` if that is at most 10 seconds, else 0.5 seconds; `rate_limit` is retried
//! only with that header. An empty answer, or a tool call that the vendor could not parse, is retried up to two times
//! if nothing was published yet. An answer that stays empty and a refused one are failures. Text that reached the
//! output limit is an answer; its `done` event says so. A prompt that is too long is sent again up to three times.
//! About half of it is replaced with a summary, or removed if no summary is available.
//!
//! Tools: each call is validated against the tool's schema and, where required, submitted for approval. Calls run
//! concurrently and their results are returned in order. A failed call is a result that the model reads. `tool_use` is
//! stored before a tool starts, so after a crash it is known which calls may have had an effect; no call is repeated
//! automatically. A turn that waits for an approval occupies no memory and no lease: its state is a row.
//!
//! Compaction: before the context window is full, or when there are too many messages, the oldest part of the
//! conversation is replaced with a summary in the prompt. The stored messages do not change. Messages are dropped only
//! if no summary can be generated, and the prompt says so.
//!
//! The client that requested a turn is its [`Origin`], stored with the session. The start and the end of a turn are
//! events (`task.started`, `task.completed`, `task.failed`) in the transactions that store them. Auxiliary turns and
//! attempts that will be retried publish none.
//!
//! Untrusted text is marked where it enters the prompt, based on a property of the tool or of the message. Its sources
//! are stored with the results, summaries and parked turns that contain it. A turn whose prompt contains untrusted text
//! needs approval before it acts (`security.after_untrusted_text`).
//!
//! Memories are recalled while the turn is being stored, for at most 0.5 seconds.
//!
//! Out of scope: the recall algorithm and the set of tools.

mod agent_data;
mod approvals;
mod call;
mod error;
mod holder;
mod live;
mod model;
mod permits;
mod prompt;
mod recall;
mod service;
mod session;
mod spans;
mod state;
mod store;
mod tools;
mod turn;
mod turn_sink;
mod worker;

use std::sync::Arc;

use agentd_base::Clock;
use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, CountBy, Family, MetricList, Recorder, Sample, Series};
use agentd_web::Routes;

use crate::agents::AgentDataOwner;
use worker::SessionMaintenance;

pub use approvals::{ApprovalHandler, Approvals, RequestApproval};
pub use error::EngineError;
pub use model::{
    Approval, ApprovalId, ApprovalStatus, CallApproval, CallRecord, CallStatus, EventKind, HistoryEntry,
    HistoryMessage, NoAnswer, Origin, OriginKind, Purpose, Reply, Round, Session, SessionEvent, SessionId,
    SessionStatus, SessionTrace, Sources, SpanError, SpanStatus, SpanTokens, SpanType, StartTurn, ToolUse, TraceSpan,
    TurnTrace, TurnUsage, UnsummarizedHistory, check_tools, distinct_tools,
};
pub use permits::BackgroundPermit;
pub use recall::{AnsweredTurn, Recall, RecallRequest, Recalled, RecalledTurn};
pub use service::{Engine, TurnActivity};
pub use store::{cancel_in_conversation, cancel_session, find_running_in_conversation, forget_sessions};
pub use turn::MAX_HISTORY_MESSAGES;
pub use turn_sink::{ConversationSummary, Settled, TurnObserver, TurnSink};

const ENDS: &[&str] = &["completed", "failed", "timeout", "cancelled", "interrupted"];

/// Counts ended turns by outcome, including interrupted ones that this process found, and records their duration.
struct MeasureTurns {
    ends: Arc<CountBy>,
    recorder: Recorder,
    clock: Clock,
}

impl TurnObserver for MeasureTurns {
    fn turn_ended(&self, session: &Session, status: SessionStatus, reason: Option<&str>) {
        if session.origin.kind != OriginKind::Auxiliary && status != SessionStatus::Running {
            let elapsed = self.clock.now().since(session.started_at);
            let is_error = matches!(status, SessionStatus::Failed | SessionStatus::Interrupted);
            self.recorder.record(Series::Turn, "", elapsed, is_error);
        }
        self.ends.count(match status {
            // A run that exceeds its time limit is cancelled with this reason.
            SessionStatus::Cancelled if reason == Some("timeout") => "timeout",
            SessionStatus::Done => "completed",
            SessionStatus::Failed => "failed",
            SessionStatus::Cancelled => "cancelled",
            SessionStatus::Interrupted => "interrupted",
            SessionStatus::Running => return,
        });
    }
}

impl Domain for Engine {
    fn parts(&self) -> DomainParts {
        let help = "Ended turns by outcome since the daemon started.";
        let family = Family::counter("svc_tasks_total", help).by(&["status"]);
        let ends = Arc::new(CountBy::new(family, ENDS));
        let mut metrics = self.metrics();
        metrics.add_counter(&ends);
        let (recorder, clock) = (self.inner().context.recorder.clone(), self.inner().context.clock.clone());
        let observer = MeasureTurns { ends, recorder, clock };
        DomainParts {
            routes: Routes::new(),
            workers: vec![Box::new(SessionMaintenance(self.clone()))],
            metrics,
            bindings: vec![
                Binding::new::<dyn AgentDataOwner>(Arc::new(self.clone())),
                Binding::new::<dyn TurnObserver>(Arc::new(observer)),
            ],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Work, self, async |engine, grace| {
                engine.drain(grace).await
            })],
        }
    }
}

impl Engine {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        metrics.read(Family::gauge("svc_turns_running", "Turns running in this daemon."), self, async |engine| {
            Ok(Sample::one(u64::try_from(engine.running_turns())?))
        });
        metrics
    }
}
