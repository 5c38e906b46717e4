//! Sessions, their events, and the input and output of a turn.

mod approval;
mod attempt;
mod event;
mod rounds;
mod session;
mod trace;
mod turn;
mod untrusted;

pub use approval::{Approval, ApprovalId, ApprovalStatus};
pub use attempt::Purpose;
pub use event::{EventKind, SessionEvent};
pub use rounds::{CallApproval, CallRecord, CallStatus, Round};
pub use session::{Origin, OriginKind, Session, SessionId, SessionStatus, TurnTrace};
pub use trace::{SessionTrace, SpanError, SpanStatus, SpanTokens, SpanType, TraceSpan};
pub use turn::{
    HistoryEntry, HistoryMessage, NoAnswer, Reply, StartTurn, ToolUse, TurnUsage, UnsummarizedHistory, check_tools,
    distinct_tools,
};
pub use untrusted::Sources;

pub(super) use approval::fingerprint;
pub(super) use attempt::{Attempt, AttemptContent, AttemptEnd, Step, StepKind, StoredAttempt, source_name};
pub(super) use rounds::{CallProgress, Outcome, PLAN, close_calls, elapsed_ms, unknown_source};
pub(super) use turn::dollars;
pub(super) use untrusted::{MARKS_NOTE, Marker, display_source};
