//! A closure on its way to the thread that runs it.

use std::cell::Cell;
use std::fmt;
use std::panic::AssertUnwindSafe;

use agentd_base::trace::{self, TraceContext};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use crate::{StoreError, Tx};

/// How much a committed change survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Also a power cut.
    Full,
    /// The process being killed, but not a power cut.
    Relaxed,
}

/// How strictly PostgreSQL keeps transactions apart. SQLite's one writer is always serial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    Serializable,
    /// For statements that lock what they take, such as claiming from the queue.
    ReadCommitted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) durability: Durability,
    pub(crate) isolation: Isolation,
}

/// What running the closure came to, as far as the writer must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Keep,
    GiveUp,
}

/// The function that a closure was written in: its type's name without type arguments, closures and the crate.
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

/// One closure with its caller.
pub(crate) trait Job: Send {
    fn plan(&self) -> Plan;

    /// Whose closure it is, for the log.
    fn name(&self) -> JobName;

    /// What the caller logs in.
    fn span(&self) -> &Span;

    /// Runs the closure; may be called again.
    fn run<'a>(&'a mut self, tx: &'a mut Tx) -> LocalBoxFuture<'a, Outcome>;

    /// Answers the caller, with the closure's result or with the error that took it back. A caller
    /// who has gone away is fine.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// What the thread that runs closures is sent.
pub(crate) enum Message {
    Job(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

thread_local! {
    static RUNS_TRANSACTIONS: Cell<bool> = const { Cell::new(false) };
}

/// Marks a thread on which waiting for a transaction would wait for itself.
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
            let outcome = if result.is_ok() { Outcome::Keep } else { Outcome::GiveUp };
            self.result = Some(result);
            outcome
        };
        Box::pin(trace::within(trace, run).instrument(span))
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(E::from(StoreError::Closed)),
            // A closure that failed by itself has nothing to lose by a failed commit, but what it
            // saw may have been taken back with its neighbours' work.
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
    fn a_name_is_the_function_that_the_closure_is_in() {
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
