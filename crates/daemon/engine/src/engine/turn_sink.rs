//! Interfaces that the engine calls when a turn ends.

use agentd_store::{StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};

use crate::engine::model::{HistoryMessage, NoAnswer, Reply, Session, SessionStatus, Sources};

/// Outcome of storing an ended turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The turn is final.
    Ended,
    /// The turn is final. The reason replaces the turn's own, for example a timeout instead of a cancellation.
    EndedFor(NoAnswer),
    /// Another attempt will follow, so no failure is published.
    Repeated,
    /// Another attempt will follow; the turn was stopped for this reason.
    RepeatedFor(NoAnswer),
}

impl Settled {
    /// Returns the reason that replaces the turn's own, if any.
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
    /// Sources of untrusted text that may be in the summary.
    pub sources: &'t Sources,
    /// [Key](super::HistoryEntry) of the last entry that the summary covers.
    pub through: u64,
}

/// Stores replies. Each feature that starts turns implements one and registers it under a name. The name is stored with
/// the session, so that another process can end it.
pub trait TurnSink: Send + Sync {
    fn name(&self) -> &'static str;

    /// Stores the reply in the transaction that ends the session. May run more than once.
    fn settle<'t>(&'t self, tx: &'t mut Tx, reply: &'t Reply) -> LocalBoxFuture<'t, Result<Settled, StoreError>>;

    /// Stores a summary that replaces the covered entries in later prompts. The entries remain stored.
    fn store_summary<'t>(
        &'t self,
        _tx: &'t mut Tx,
        _conversation_id: &'t str,
        _summary: ConversationSummary<'t>,
    ) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the entries between `after` and `before`, both exclusive, oldest first, each with its key. May return
    /// only the first part; an empty result means that there are no more entries.
    fn messages_between<'t>(
        &'t self,
        _conversation_id: &'t str,
        _after: u64,
        _before: u64,
    ) -> BoxFuture<'t, Result<Vec<(u64, HistoryMessage)>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// Observes the end of each turn of this process, and of abandoned turns that it recovered, after the end is stored.
/// Runs on the turn's path, so implementations must not block.
pub trait TurnObserver: Send + Sync {
    /// `session` is the turn as it started; `reason` is the code of the reason given by [`Settled::reason`].
    fn turn_ended(&self, session: &Session, status: SessionStatus, reason: Option<&str>);
}
