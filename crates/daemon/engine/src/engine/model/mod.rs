//! Sessions, their events, and what a caller gives and gets.

mod approval;
mod attempt;
mod event;
mod origin;
mod rounds;
mod session;
mod step;
mod trace;
mod turn;
mod untrusted;

pub use approval::{Approval, ApprovalId, ApprovalStatus};
pub use attempt::Purpose;
pub use event::{EventKind, SessionEvent};
pub use origin::{Origin, OriginKind};
pub use rounds::{CallApproval, CallRecord, CallStatus, Round};
pub use session::{Session, SessionId, SessionStatus, TurnTrace};
pub use trace::{SessionTrace, SpanError, SpanStatus, SpanTokens, SpanType, TraceSpan};
pub use turn::{
    HistoryEntry, HistoryMessage, NoAnswer, Reply, StartTurn, ToolUse, TurnUsage, Unread, check_tools, distinct_tools,
};
pub use untrusted::Sources;

pub(super) use approval::fingerprint;
pub(super) use attempt::{Attempt, AttemptContent, AttemptEnd, StoredAttempt, source_name};
pub(super) use rounds::{CallProgress, Outcome, PLAN, close_calls, elapsed_ms, unknown_source};
pub(super) use step::{Step, StepKind};
pub(super) use turn::dollars;
pub(super) use untrusted::{MARKS_NOTE, Marker, shown_source};
