//! What the engine calls upward when a turn ends.

use agentd_store::{StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};

use crate::engine::model::{HistoryMessage, NoAnswer, Reply, Session, SessionStatus, Sources};

/// What becomes of a turn that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// That was it.
    Ended,
    /// That was it, for a reason that whoever stopped the turn knows better than the turn does.
    EndedFor(NoAnswer),
    /// Another attempt is planned, so nobody is told that it failed.
    Repeated,
    /// Likewise, and the turn was stopped for that reason.
    RepeatedFor(NoAnswer),
}

impl Settled {
    /// Why the turn was stopped, where whoever stopped it knows better than the turn does.
    #[must_use]
    pub fn reason(&self) -> Option<&NoAnswer> {
        match self {
            Self::EndedFor(reason) | Self::RepeatedFor(reason) => Some(reason),
            Self::Ended | Self::Repeated => None,
        }
    }
}

/// A summary of the beginning of a conversation.
#[derive(Debug, Clone, Copy)]
pub struct ConversationSummary<'t> {
    pub text: &'t str,
    /// Where untrusted text comes from that may be in it.
    pub sources: &'t Sources,
    /// The [key](super::HistoryEntry) of the last entry that it stands for.
    pub through: u64,
}

/// Keeps replies: implemented by whoever starts turns, and found by its name when the daemon that
/// ran a turn is gone.
pub trait TurnSink: Send + Sync {
    fn name(&self) -> &'static str;

    /// Keeps the reply, in the transaction that ends the session. May run more than once.
    fn settle<'t>(&'t self, tx: &'t mut Tx, reply: &'t Reply) -> LocalBoxFuture<'t, Result<Settled, StoreError>>;

    /// Keeps a summary, to be given instead of what it stands for from now on. What was said stays whole.
    fn keep_summary<'t>(
        &'t self,
        _tx: &'t mut Tx,
        _conversation_id: &'t str,
        _summary: ConversationSummary<'t>,
    ) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What was said after the entry `after` and before the entry `before`, oldest first, each with its key; a part
    /// of it where it is long, but nothing only at its end.
    fn said_between<'t>(
        &'t self,
        _conversation_id: &'t str,
        _after: u64,
        _before: u64,
    ) -> BoxFuture<'t, Result<Vec<(u64, HistoryMessage)>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// Hears how each turn of this process ended, and each that it found cut off, once that is stored. Stands in the turn's way, so it
/// only takes note.
pub trait TurnObserver: Send + Sync {
    /// `session` is the turn as it began; `reason` is the code of the reason that whoever stopped it gave.
    fn turn_ended(&self, session: &Session, status: SessionStatus, reason: Option<&str>);
}
