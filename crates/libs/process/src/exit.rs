//! How a child ends.

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::watch;

/// How a child ended. Both are `None` when the system no longer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitOutcome {
    /// What it returned.
    pub code: Option<i32>,
    /// What killed it.
    pub signal: Option<i32>,
}

impl std::fmt::Display for ExitOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "ended with code {code}"),
            (None, Some(signal)) => write!(f, "was ended by signal {signal}"),
            (None, None) => f.write_str("ended"),
        }
    }
}

/// Shared by the child's handle and the thread that reaps it.
#[derive(Debug)]
pub(crate) struct Exit {
    /// The group's id, until the leader is reaped: from then on the number may belong to others.
    group: Mutex<Option<Pid>>,
    outcome: watch::Sender<Option<ExitOutcome>>,
}

impl Exit {
    pub(crate) fn new(leader: Pid) -> Self {
        Self { group: Mutex::new(Some(leader)), outcome: watch::Sender::new(None) }
    }

    pub(crate) fn kill_group(&self) {
        self.signal_group(Signal::KILL);
    }

    pub(crate) fn signal_group(&self, signal: Signal) {
        if let Some(group) = *self.group.lock() {
            // It fails only when the whole group has ended.
            let _ = kill_process_group(group, signal);
        }
    }

    /// The leader has ended and is not reaped yet: ends the rest of its group, then reaps it.
    pub(crate) fn finish(&self, reap: impl FnOnce() -> ExitOutcome) {
        let mut group = self.group.lock();
        if let Some(group) = group.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let outcome = reap();
        drop(group);
        self.outcome.send_replace(Some(outcome));
    }

    pub(crate) async fn wait(&self) -> ExitOutcome {
        let mut outcome = self.outcome.subscribe();
        let ended = outcome.wait_for(Option::is_some).await;
        // The sender lives in `self`, so it cannot be gone.
        ended.ok().and_then(|outcome| *outcome).unwrap_or(ExitOutcome { code: None, signal: None })
    }
}
