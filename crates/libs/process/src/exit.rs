//! Outcome of a child.

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::watch;

/// Exit of a child. Both fields are `None` if the system no longer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitOutcome {
    /// Exit code, if the child exited.
    pub code: Option<i32>,
    /// Signal that killed the child.
    pub signal: Option<i32>,
}

impl std::fmt::Display for ExitOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}"),
            (None, Some(signal)) => write!(f, "was killed by signal {signal}"),
            (None, None) => f.write_str("ended"),
        }
    }
}

/// Exit state shared by the child's handle and the thread that reaps it.
#[derive(Debug)]
pub(crate) struct Exit {
    /// Process group id, until the leader is reaped; afterwards the number may be reused.
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
            // Fails only if the whole group has ended.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills the rest of the group of an ended leader, then reaps the leader.
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
        // The sender is owned by `self`, so it cannot have been dropped.
        ended.ok().and_then(|outcome| *outcome).unwrap_or(ExitOutcome { code: None, signal: None })
    }
}
