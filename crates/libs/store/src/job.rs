//! Closures queued for the transaction thread.

use std::cell::Cell;
use std::fmt;
use std::panic::AssertUnwindSafe;

use agentd_base::trace::{self, TraceContext};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use crate::{StoreError, Tx};

/// Durability of a committed change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power failure.
    Full,
    /// Survives a process crash, but not a power failure.
    Relaxed,
}

/// Isolation of transactions on PostgreSQL. SQLite's single writer is always serial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    Serializable,
    /// For statements that lock the rows they change, such as queue claims.
    ReadCommitted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) durability: Durability,
    pub(crate) isolation: Isolation,
}

/// Outcome of a closure, for the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Commit,
    RollBack,
}

/// Name of the function that contains a closure: its type name without type arguments, closures and the crate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobName(&'static str);

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut depth, mut plain) = (0_usize, String::new());
        for character in self.0.replace("->", "").chars() {
            match character {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                _ if depth == 0 => plain.push(character),
                _ => {}
            }
        }
        let parts: Vec<&str> =
            plain.split("::").skip(1).filter(|part| !part.is_empty() && *part != "{{closure}}").collect();
        f.write_str(&parts.join("::"))
    }
}

/// Closure with its caller.
pub(crate) trait Job: Send {
    fn plan(&self) -> Plan;

    /// Name of the function that contains the closure, for logs.
    fn name(&self) -> JobName;

    /// Tracing span of the caller.
    fn span(&self) -> &Span;

    /// Runs the closure; may be called more than once.
    fn run<'a>(&'a mut self, tx: &'a mut Tx) -> LocalBoxFuture<'a, Outcome>;

    /// Sends the result of the closure, or the error that rolled it back, to the caller. The caller may be gone.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// Message to the transaction thread.
pub(crate) enum Message {
    Job(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

thread_local! {
    static RUNS_TRANSACTIONS: Cell<bool> = const { Cell::new(false) };
}

/// Marks a thread on which waiting for a transaction would deadlock.
pub(crate) fn mark_transaction_thread() {
    RUNS_TRANSACTIONS.set(true);
}

pub(crate) fn is_transaction_thread() -> bool {
    RUNS_TRANSACTIONS.get()
}

pub(crate) struct ClosureJob<T, E, F> {
    plan: Plan,
    span: Span,
    trace: Option<TraceContext>,
    work: F,
    result: Option<Result<T, E>>,
    caller: oneshot::Sender<Result<T, E>>,
}

impl<T, E, F> ClosureJob<T, E, F> {
    pub(crate) fn new(plan: Plan, work: F) -> (Self, oneshot::Receiver<Result<T, E>>) {
        let (caller, answer) = oneshot::channel();
        (Self { plan, span: Span::current(), trace: trace::current(), work, result: None, caller }, answer)
    }
}

impl<T, E, F> Job for ClosureJob<T, E, F>
where
    F: AsyncFn(&mut Tx) -> Result<T, E> + Send + 'static,
    E: From<StoreError> + Send + 'static,
    T: Send + 'static,
{
    fn plan(&self) -> Plan {
        self.plan
    }

    fn name(&self) -> JobName {
        JobName(std::any::type_name::<F>())
    }

    fn span(&self) -> &Span {
        &self.span
    }

    fn run<'a>(&'a mut self, tx: &'a mut Tx) -> LocalBoxFuture<'a, Outcome> {
        let (span, trace) = (self.span.clone(), self.trace);
        let run = async move {
            let finished = AssertUnwindSafe(async { (self.work)(&mut *tx).await }).catch_unwind().await;
            let result = match finished {
                // A closure must not hide that one of its statements failed.
                Ok(Ok(_)) if tx.read.failure.is_some() => Err(E::from(StoreError::Aborted)),
                Ok(result) => result,
                Err(panic) => Err(E::from(StoreError::Panicked { message: panic_message(&*panic) })),
            };
            let outcome = if result.is_ok() { Outcome::Commit } else { Outcome::RollBack };
            self.result = Some(result);
            outcome
        };
        Box::pin(trace::with_context(trace, run).instrument(span))
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(E::from(StoreError::Closed)),
            // A closure that failed on its own loses nothing by a failed commit, but what it read may have been rolled
            // back with the rest of the batch.
            (Err(error), _) => Err(E::from(error)),
        };
        drop(self.caller.send(result));
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::JobName;

    #[test]
    fn job_name_is_the_enclosing_function() {
        for (name, shown) in [
            (
                "agentd_automation::hooks::worker::read::ReadEvents::run::{{closure}}::{{closure}}",
                "hooks::worker::read::ReadEvents::run",
            ),
            (
                "agentd_conversation::chat::service::send::<impl agentd_conversation::chat::service::Chat>::send<fn(u8) -> u8, A<B>>::{{closure}}",
                "chat::service::send::send",
            ),
        ] {
            assert_eq!(JobName(name).to_string(), shown);
        }
    }
}
