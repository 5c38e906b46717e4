//! The engine: runs one turn of an agent at a time, whoever asks for it (chat, later the scheduler
//! and webhooks), and keeps a log of it that anybody can follow.
//!
//! Invariants
//! - What was asked and the session are one transaction, and nothing of the reply is shown before
//!   it is committed. The model is called meanwhile.
//! - Every event is stored before it is shown. Its number is its id; numbers have no gap.
//! - The end (last event, state, usage rows, what the caller keeps of the reply) is one transaction.
//! - A turn belongs to no client: nobody who goes away stops it, no slow follower holds it back.
//! - A conversation has one running turn at most; a unique index decides.
//! - A session is held by a lease. Whoever lost it writes nothing any more.
//!
//! | state | by | next |
//! |---|---|---|
//! | – | [`Engine::start`] | running |
//! | running | the model came to its end | done |
//! | running | the model or the store failed | failed |
//! | running | a tool needs an approval, and nothing else is left to do | running, waiting |
//! | running | [`Engine::cancel`], or its agent or conversation was deleted | cancelled |
//! | running | the daemon was stopped or killed; the lease ended | interrupted |
//!
//! Retries: a call that failed before its first piece with `overloaded`, `provider_unavailable` or
//! `rate_limit` is made once more, after `Retry-After` if that is 10 seconds at most, else half a
//! second (`rate_limit` only with such a header). A model that answers nothing, or with a call that its vendor could
//! not read, is asked up to two times more while nothing was shown. An answer that stays empty, and one that was
//! refused, is a failure; text that reached the output limit is an answer, and its `done` event says so. A prompt that was too long is sent again, up to three
//! times, with a summary in the place of about half of it, or without that half where there is none.
//!
//! Tools: what the model asks for is checked against each tool's schema, asked about where that is
//! due, run side by side, and given back in order; a call that fails in any way is a result that the
//! model reads. `tool_use` is stored before a tool starts, so after a crash it is known which calls
//! may have had an effect; none is run again by itself. A turn that waits for an approval is held by
//! nobody and by no memory: its state is a row.
//!
//! Before the window is full, and before there are too many messages, the oldest part of a conversation
//! becomes a summary; what was said stays whole where it is kept. Only what no summary could be had of
//! is left out, and the model is told so.
//!
//! Who asked for a turn is its [`Origin`], kept with the session. Its beginning and its end are events
//! (`task.started`, `task.completed`, `task.failed`) in the transactions that store them, except of turns
//! beside any conversation, and of attempts that are to be repeated.
//!
//! Text that others wrote is marked where it enters the prompt, by a property of the tool that answered it or of the
//! message. Its sources are stored with the results, summaries and waiting turns that carry it; a turn whose prompt
//! has any asks before it acts (`security.after_untrusted_text`).
//!
//! What an agent remembers is asked for while the turn is being stored, and a turn waits half a second
//! for it at most.
//!
//! Deliberately absent: how something is recalled, and what tools there are.

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

use crate::agents::OwnsAgentData;
use worker::SessionMaintenance;

pub use approvals::{Approvals, DecidesApproval, RequestApproval};
pub use error::EngineError;
pub use model::{
    Approval, ApprovalId, ApprovalStatus, CallApproval, CallRecord, CallStatus, EventKind, HistoryEntry,
    HistoryMessage, NoAnswer, Origin, OriginKind, Purpose, Reply, Round, Session, SessionEvent, SessionId,
    SessionStatus, SessionTrace, Sources, SpanError, SpanStatus, SpanTokens, SpanType, StartTurn, ToolUse, TraceSpan,
    TurnTrace, TurnUsage, Unread, check_tools, distinct_tools,
};
pub use permits::BackgroundPermit;
pub use recall::{AnsweredTurn, Recall, RecallRequest, Recalled, RecalledTurn};
pub use service::{Engine, TurnActivity};
pub use store::{cancel_in_conversation, cancel_session, find_running_in_conversation, forget_sessions};
pub use turn::MAX_HISTORY;
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
        if session.origin.kind != OriginKind::Aside && status != SessionStatus::Running {
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
        let help = "Turns of agents by how they ended, since the daemon started.";
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
                Binding::new::<dyn OwnsAgentData>(Arc::new(self.clone())),
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
        metrics.read(Family::gauge("svc_turns_running", "Turns that run in this daemon now."), self, async |engine| {
            Ok(Sample::one(u64::try_from(engine.running_turns())?))
        });
        metrics
    }
}
